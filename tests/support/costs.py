"""Measures each test: its seconds, and the processor seconds of the test and of the processes that it waited for.

`bin/test --costs FILE` writes a line of JSON to FILE when a test ends (`ended`, or `failed`: seconds after the start
of the run), and prints the sums by folder. During a long run, `grep failed FILE` shows the failures so far."""

from __future__ import annotations

import json
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

OPTION = "--costs"


class Costs:
    """The plugin: a worker measures each phase of a test, and the main process adds up the phases."""

    def __init__(self, place: Path, is_worker: bool) -> None:
        self._place = place
        self._is_worker = is_worker
        self._before = processor_seconds()
        self._began = time.monotonic()
        self._tests: dict[str, Counter[str]] = defaultdict(Counter)  # "wall": elapsed seconds, "cpu"
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        now = processor_seconds()
        report.cpu = now - self._before  # xdist transfers every attribute of a report
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._is_worker:
            return
        cost, ended = self._tests[report.nodeid], time.monotonic() - self._began
        cost.update(wall=report.duration, cpu=getattr(report, "cpu", 0.0))
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when == "teardown":
            outcome = "failed" if report.nodeid in self._failed else "ended"
            line = {"test": report.nodeid, **cost, outcome: round(ended, 1)}
            with self._place.open("a") as file:
                file.write(f"{json.dumps(line)}\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        folders: dict[str, Counter[str]] = defaultdict(Counter)
        for name, cost in self._tests.items():
            folders["/".join(name.split("::")[0].split("/")[:2])].update(cost)
        terminalreporter.section("seconds and processor seconds by folder")
        for name, cost in sorted(folders.items(), key=lambda one: -one[1]["cpu"]):
            terminalreporter.write_line(f"{cost['wall']:8.0f} {cost['cpu']:8.0f}  {name}")


def processor_seconds() -> float:
    """Returns those of this process, and of all processes that it has waited for."""
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
