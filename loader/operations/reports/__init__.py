"""The report of a finished run, as metrics and as a page. The page is one HTML file without scripts or external
resources. Its charts are bars of CSS."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import socket
from collections.abc import Iterator, Mapping
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from loader import log, plain, units
from loader.errors import EXIT_DIFFERENT, EXIT_OK, LoaderError, PackageMissing
from loader.ldif import Rejected
from loader.mdb import contents
from loader.mdb.environment import LOCK
from loader.mdb.meta import DATA
from loader.progress import DONE_BEFORE, Recorder, StepRecord
from loader.server import tools
from loader.storage import files, held

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_log = logging.getLogger(__name__)
_MOST_REJECTIONS = 100  # maximum number of rejected entries that the page lists
_STATES = {0: ("done", "Done."), 1: ("rejects", "Done, with rejected entries.")}
_SLICES = 100  # maximum number of time slices of a step; a rate is the average over a slice


class RunReport(Struct, frozen=True):
    """A finished run. `facts` is the report as in --json. It is empty if the run failed."""

    verb: str
    recorder: Recorder
    seconds: float
    status: int
    error: LoaderError | None = None
    facts: Mapping[str, object] = {}

    @property
    def steps(self) -> list[StepRecord]:
        return self.recorder.steps

    @property
    def is_done(self) -> bool:
        """Whether the run finished, with or without rejects."""
        return self.error is None and self.status in (EXIT_OK, EXIT_DIFFERENT)

    @property
    def entries(self) -> int:
        """Number of entries as in --json; for a failed run, the number that its last step counted."""
        counted = self.steps[-1].entries if self.steps else 0
        entries = self.facts.get("entries", self.facts.get("read"))
        return entries if self.is_done and isinstance(entries, int) else counted

    @property
    def bytes(self) -> int:
        """The largest number of bytes that a step read or wrote."""
        return max((step.bytes for step in self.steps), default=0)

    @property
    def rejected(self) -> int | None:
        """Number of rejected entries, from `facts` or from the error; None if unknown."""
        of_error = self.error.facts.get("rejected") if self.error else 0
        count = self.facts.get("rejected", of_error)
        return count if isinstance(count, int) else None

    @property
    def rejections(self) -> list[Rejected]:
        """The first rejected entries, with passwords redacted."""
        rejections = self.facts.get("rejections")
        return [
            (path, line, log.redact(str(dn)), log.redact(str(reason)))
            for path, line, dn, reason in (rejections if isinstance(rejections, list) else ())
        ]


def families(run: RunReport) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    began = run.recorder.began
    counted = "Entries in the report; if the run failed, those that its last step had counted."
    rejects = "Rejected entries; no value if the run failed before they were counted."
    gauges: tuple[tuple[str, str, float | None], ...] = (
        ("success", "1 if the run was done, with rejects or without; else 0.", run.is_done),
        ("exit_status", "As docs/errors.md lists them.", run.status),
        ("start_timestamp_seconds", "When the run began, as Unix time.", began),
        ("end_timestamp_seconds", "When the run ended, as Unix time.", began + run.seconds),
        ("duration_seconds", "Seconds from the beginning to the end.", run.seconds),
        ("entries", counted, run.entries),
        ("bytes", "Bytes of the step that read or wrote the most.", run.bytes),
        ("rejects", rejects, run.rejected),
    )
    for name, text, value in gauges:
        family = GaugeMetricFamily(f"ditseed_run_{name}", text, labels=["verb"])
        if value is not None:
            family.add_metric([run.verb], float(value))
        yield family
    text = "Seconds that a step took in this run; steps that run in parallel are added up."
    steps = GaugeMetricFamily("ditseed_run_step_seconds", text, labels=["verb", "step"])
    seconds: dict[str, float] = {}
    for step in run.steps:
        if step.state != DONE_BEFORE:
            seconds[step.name] = seconds.get(step.name, 0.0) + step.seconds
    for name, value in seconds.items():
        steps.add_metric([run.verb, name], value)
    yield steps


def require() -> None:
    """Raises PackageMissing if jinja2 is not installed. Must be called before the run."""
    if importlib.util.find_spec("jinja2") is None:
        raise PackageMissing(place="--report", package="jinja2", extra="charts", packages="jinja2")


def write_page(run: RunReport, command: str, path: Path) -> None:
    """Writes the page atomically. Its mode is 0600, because it may contain DNs."""
    files.write_durably(path, rendered(run, command).encode("utf-8", "replace"), 0o600)


def rendered(run: RunReport, command: str) -> str:
    from jinja2 import Environment, StrictUndefined  # imported here because the import is slow

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["plain"] = lambda value: plain.sentence(str(value))
    environment.filters |= {"number": units.number, "size": units.size, "duration": units.duration}
    text = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(text).render(_facts(run, command))


def _facts(run: RunReport, command: str) -> Mapping[str, object]:
    failed = ("failed", f"Not done: the run ended with exit status {run.status}.")
    error, rate = run.error, run.facts.get("rate")
    figures = (  # name, value, printed value; a figure whose value is 0 or unknown is left out below
        ("bytes", run.bytes, units.size(run.bytes)),
        ("duration", run.seconds, units.duration(run.seconds)),
        ("entries per second", rate, units.number(rate) if isinstance(rate, int) else ""),
        ("rejects", run.rejected, units.number(run.rejected or 0)),
    )
    return {
        "verb": run.verb,
        "host": socket.gethostname(),
        "begun": units.moment(run.recorder.began),
        "ending": _STATES[run.status] if run.is_done else failed,
        "error": error and {"code": error.code, "message": log.redact(str(error)), "hint": log.redact(error.advice())},
        "figures": [
            ("entries", run.entries, units.number(run.entries)),
            *(figure for figure in figures if figure[1] and figure[2]),
        ],
        "asked": list(_requested(run, command)),
        "steps": run.steps,
        "seconds": max(run.seconds, 1e-6),
        "rates": list(_rates(run)),
        "databases": list(_databases(run)),
        "rejected": run.rejected,
        "rejects_in": run.facts.get("rejects"),
        "rejections": run.rejections[:_MOST_REJECTIONS],
    }


def _requested(run: RunReport, command: str) -> Iterator[tuple[str, str]]:
    slapd = tools.release()
    yield "command", plain.shortened(log.redact(command), plain.WHOLE)
    yield "host", plain.printable(socket.gethostname())
    yield "ditseed", importlib.metadata.version("ditseed")
    yield "slapd here", ".".join(map(str, slapd)) if slapd else "none"
    yield "begun", units.moment(run.recorder.began)
    yield "ended", units.moment(run.recorder.began + run.seconds)
    if "done_before" in run.facts:
        yield "done before", f"already done on {run.facts['done_before']}: nothing was done now"
    for name in ("directory", "output"):
        if run.facts.get(name):
            yield name, plain.printable(str(run.facts[name]))


def _databases(run: RunReport) -> Iterator[Mapping[str, object]]:
    """Yields directory, bytes and tables of each published database. Skips an unreadable database with a warning."""
    databases = run.facts.get("databases")
    for facts in (run.facts, *(databases if isinstance(databases, list) else ())):
        if "published" in facts and "directory" in facts:
            try:
                size, tables = _tables(Path(facts["directory"]))
            except (LoaderError, OSError) as error:
                _log.warning("the report has no sizes of tables: %s", error)
            else:
                yield {"directory": facts["directory"], "bytes": size, "tables": tables}


def _tables(directory: Path) -> tuple[int, list[tuple[str, int]]]:
    """Returns the bytes of the data file, and of each table, the largest first. The last item, "the rest", stands for
    free pages and for pages of long ID lists, which LMDB does not count with their index."""
    with held.checked_file(directory / DATA) as pin:
        size = pin.stat().st_size
        # Without a lock.mdb, no slapd has the database open, and reading only the file creates none.
        sizes = contents.table_bytes(directory if (directory / LOCK).exists() else pin)
    tables = sorted(sizes.items(), key=lambda table: -table[1])
    return size, [*tables, ("the rest", max(0, size - sum(sizes.values())))]


def _rates(run: RunReport) -> Iterator[tuple[str, str, float, list[tuple[float, float]]]]:
    """Yields name, unit, highest rate, and time slices (seconds, share of that rate) of each step that has counts."""
    for step in run.steps:
        for counted, unit, scale in (("entries", "entries/s", 1), ("bytes", "MiB/s", 1 << 20)):
            if len(step.points) > 1 and getattr(step, counted):
                slices = rates_of(step, counted, step.seconds / _SLICES)
                highest = max(rate for _, rate in slices) or 1.0
                yield step.name, unit, highest / scale, [(seconds, rate / highest) for seconds, rate in slices]


def rates_of(step: StepRecord, counted: str, least: float) -> list[tuple[float, float]]:
    """Returns seconds and rate of each time slice of a step. A slice has at least `least` seconds. If the count falls
    in a slice, because the counts of a failed call were subtracted, the rate is 0."""
    slice_ends = [step.points[0]]
    for point in step.points[1:]:
        if point.at - slice_ends[-1].at >= least:
            slice_ends.append(point)
    if slice_ends[-1] is not step.points[-1]:  # extend the last slice to the end
        slice_ends[max(1, len(slice_ends) - 1) :] = [step.points[-1]]
    lengths = [(before, after, max(after.at - before.at, 1e-6)) for before, after in pairwise(slice_ends)]
    return [
        (seconds, max(0, getattr(after, counted) - getattr(before, counted)) / seconds)
        for before, after, seconds in lengths
    ]
