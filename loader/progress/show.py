"""Shows the steps of a run: on a terminal, as lines, or as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TextIO

from loader import bars, log, naming, plain, units
from loader.progress.meter import Meter
from loader.progress.recorder import Recorder
from loader.progress.sample import SCHEMA_VERSION, Sampler

_log = logging.getLogger(__name__)


def _moves_cursor() -> bool:
    return os.environ.get("TERM") not in ("dumb", "unknown")


class Progress:
    """Shows steps. `mode`: "terminal", "plain", "json" or "none"; "auto" picks by stderr. `recorder`: records them, in
    every mode."""

    def __init__(
        self,
        mode: str = "auto",
        stream: TextIO | None = None,
        every: float = 15.0,
        recorder: Recorder | None = None,
    ) -> None:
        self._recorder = recorder
        self._stream = stream or sys.stderr
        self._told: set[str] = set()  # files whose last line had no end
        if mode == "auto":
            mode = "terminal" if self._stream.isatty() and _moves_cursor() else "plain"
        self._mode = mode
        self._every = {"terminal": 0.25, "json": 1.0}.get(mode, every)

    @contextmanager
    def step(self, name: str, total: int | None = None) -> Iterator[Meter]:
        meter = Meter(name, total)
        _log.info("%s: started", name)
        with self._recorded(meter), self._shown(meter):
            yield meter
        self._close(meter)

    def _recorded(self, meter: Meter) -> AbstractContextManager[None]:
        return self._recorder.following(meter) if self._recorder else nullcontext()

    @contextmanager
    def _shown(self, meter: Meter) -> Iterator[None]:
        if self._mode == "none":
            yield
            return
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(meter, ended), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def passed_over(self, name: str) -> None:
        """A step that an earlier run did."""
        if self._recorder:
            self._recorder.passed_over(name)
        self.say(f"{name}: done before")

    def say(self, text: str) -> None:
        """A line for people; in the modes for machines it is for the log only."""
        _log.info(
            "%s",
            naming.with_operator_paths(text),
            extra=log.SHOWN if self._mode != "none" else None,
        )
        if self._mode in ("terminal", "plain"):
            print(
                plain.shortened(naming.with_operator_paths(text), plain.WHOLE),
                file=self._stream,
                flush=True,
            )

    def _tell_open_ends(self, meter: Meter) -> None:
        for path in dict.fromkeys(meter.open_ends):
            if path not in self._told:
                self._told.add(path)
                self.say(
                    f"{path}: note: the last line has no end; it is taken as it is, as slapadd does"
                )

    def _watch(self, meter: Meter, ended: threading.Event) -> None:
        sampler = Sampler(meter)
        if self._mode == "terminal":
            self._draw(sampler, ended)
            return
        while not ended.wait(self._every):
            sample = sampler.look()
            lines = [sample.record()] if self._mode == "json" else sample.lines()
            print("\n".join(lines), file=self._stream, flush=True)

    def _draw(self, sampler: Sampler, ended: threading.Event) -> None:
        """A step that is done at once draws nothing."""
        if ended.wait(self._every):
            return
        with bars.shown(self._stream) as show:
            show(sampler.look())
            while not ended.wait(self._every):
                show(sampler.look())

    def _close(self, meter: Meter) -> None:
        self._tell_open_ends(meter)
        for path, size, _ in meter.files:
            _log.info(
                "%s: read %s (%s)", meter.name, naming.with_operator_paths(path), units.size(size)
            )
        if self._mode == "json":
            facts = {
                "event": "step",
                "step": meter.name,
                "entries": meter.entries,
                "seconds": meter.seconds,
            }
            print(
                json.dumps({"schema_version": SCHEMA_VERSION, **facts}),
                file=self._stream,
                flush=True,
            )
        speed = f", {units.rate(meter.entries, meter.seconds)}" if meter.entries else ""
        count = f"{units.number(meter.entries)} entries in " if meter.entries else ""
        self.say(f"{meter.name}: {count}{units.duration(meter.seconds)}{speed}")
