"""The page and the metrics of a run that is made up: what comes from outside stays text, secrets are blanked."""

from __future__ import annotations

from typing import Any

import pytest

from loader.errors import AddRefused, EntryRefused
from loader.operations import reports
from loader.operations.reports import RunReport, rates_of
from loader.progress import Meter, Point, Recorder, StepRecord
from tests.support.pages import Page, outside

HOSTILE = "</text></svg><script>alert(1)</script>\x1b[2J $\\frac$ 例"


def report(**more: Any) -> RunReport:
    recorder = Recorder()
    with recorder.following(Meter("load")):
        pass
    given: dict[str, Any] = {"verb": "build", "recorder": recorder, "seconds": 1.0, "status": 0}
    return RunReport(**{**given, **more})


def shown(made: RunReport, command: str = "ditseed build") -> Page:
    found = Page(reports.rendered(made, command))
    assert outside(found) == []
    return found


@pytest.mark.slow
def test_passwords_are_blanked_and_a_long_list_is_cut() -> None:
    many = [(None, number, "cn=x", "userPassword: hidden1") for number in range(5000)]
    made = report(facts={"rejected": 5000, "rejections": many}, status=1)
    found = shown(made, "ditseed build --config x -b 'cn=x,credentials=hidden2'")
    assert "hidden" not in found.source
    assert "credentials=***" in found.by_id("asked").text
    assert len(found.within("rejects", "tr")) == 101
    assert found.value("rejected") == 5000


@pytest.mark.slow
def test_names_from_outside_are_text() -> None:
    """Of steps and tables, beside bars too; in an error."""
    recorder = Recorder()
    recorder.steps.append(StepRecord(HOSTILE, 0.0, 1.0, 5, 5, points=[Point(0, 0, 0), Point(1, 5, 5)]))
    error = EntryRefused(dn=HOSTILE, reason=HOSTILE, where=f"bindpw=hidden {HOSTILE}", way_out="")
    facts = {"rejected": 1, "rejections": [(HOSTILE, 1, f"{HOSTILE}\u202e", HOSTILE)], "rejects": f"/{HOSTILE}"}
    found = shown(report(recorder=recorder, error=error, status=46, facts=facts), HOSTILE)
    assert "\x1b" not in found.source
    assert "hidden" not in found.source
    for place in ("rates", "steps", "error", "rejects", "asked"):
        assert "<script>alert(1)</script>" in found.by_id(place).text, place
    assert "\\u202e" in found.by_id("rejects").text


def test_what_is_not_known_is_not_told() -> None:
    refused = EntryRefused(dn="cn=x", reason="y", where="z", way_out="")
    assert report(error=refused, status=46).rejected is None
    counted = AddRefused(dn="cn=x", reason="y", advice="z", rejected=2, added=1)
    assert report(error=counted, status=64).rejected == 2
    names = {one.name for one in reports.families(report()) if one.samples}
    left = {one.name for one in reports.families(report(error=refused, status=46)) if one.samples}
    assert names - left == {"ditseed_run_rejects"}


def test_steps_of_one_name_are_one_series() -> None:
    """Those that an earlier run did are none."""
    made = report()
    with made.recorder.following(Meter("load")):
        pass
    made.recorder.skipped("config")
    (family,) = [one for one in reports.families(made) if one.name.endswith("step_seconds")]
    (sample,) = family.samples
    assert (sample.labels["step"], sample.value) == ("load", sum(one.seconds for one in made.steps))


@pytest.mark.parametrize(
    ("counts", "rates"),
    [
        ([(0, 0), (1, 10), (2, 30)], [10, 20]),
        ([(0, 0), (1, 10), (2, 0)], [10, 0]),  # a failed call's count is taken back
        ([(0, 0), (1, 10), (1.01, 11)], [11 / 1.01]),  # the rest belongs to the last slice
        ([(0, 0), (0.01, 1)], [100]),
        ([(0, 0), (0.1, 5), (0.2, 5), (1, 10)], [10]),
    ],
)
def test_rates(counts: list[tuple[float, int]], rates: list[float]) -> None:
    step = StepRecord("load", 0.0, points=[Point(at, entries, 0) for at, entries in counts])
    slices = rates_of(step, "entries", 0.5)
    assert [rate for _, rate in slices] == pytest.approx(rates)
    assert sum(seconds for seconds, _ in slices) == pytest.approx(counts[-1][0])
