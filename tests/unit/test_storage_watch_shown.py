"""What `storage watch` says of its probes, replays and draws."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from loader.cli.watch_live import Scale
from loader.errors import UsageProblem
from loader.operations.storage import charts
from loader.operations.storage.watch import chart, replay, symptoms
from loader.operations.storage.watch.history import History, Point
from loader.operations.storage.watch.state import State
from loader.operations.storage.watch.targets import WAKE_UP
from tests.support.command import ditseed
from tests.unit.test_storage_watch_plugin import NOW, known, layer

LAYERS = ("fs", "disk")
QUIET = {name: dict.fromkeys(range(30), 0.0004) for name in LAYERS}


def said(probe: str, own: dict[int, float], layers: dict[str, dict[int, float]] = QUIET) -> str:
    return "; ".join(symptoms.told([probe], LAYERS, {**layers, probe: own}))


def test_a_slow_probe_is_told_where_no_layer_is_slow() -> None:
    slow = dict.fromkeys(range(30), 0.05)
    assert said("write in /x", slow).startswith(
        "write in /x takes 50.00 ms, and no read of a layer more than 0.40 ms"
    )
    once = {**dict.fromkeys(range(30), 0.0001), 7: 3.2}
    assert said("flock in /x", once).startswith("flock in /x took up to 3200.00 ms, and no read of")
    assert "no layer was measured" in said("flock in /x", once, {})


def test_a_probe_that_layers_explain_is_not() -> None:
    as_slow = {"fs": dict.fromkeys(range(30), 0.03), "disk": dict.fromkeys(range(30), 0.02)}
    assert said("write in /x", dict.fromkeys(range(30), 0.05), as_slow) == ""
    assert said("write in /x", dict.fromkeys(range(30), 0.008)) == ""
    few = dict.fromkeys(range(4), 0.05)
    assert said("write in /x", few) == ""
    peaks = {**QUIET, "disk": {**QUIET["disk"], 3: 2.0}}
    assert said("flock in /x", {7: 3.2}, peaks) == ""


def test_a_processor_that_was_away_is_told_from_a_slow_disk() -> None:
    late, peaks = {**dict.fromkeys(range(30), 2e-5), 3: 1.4}, {**QUIET, "disk": {3: 1.5}}
    assert "the processor let a probe wait for up to 1400.00 ms" in said(WAKE_UP, late, peaks)
    assert said(WAKE_UP, {3: 0.04}, peaks) == ""
    assert said(WAKE_UP, dict.fromkeys(range(30), 2e-5)) == ""


def test_a_long_watch_keeps_every_peak() -> None:
    history = History(most=100)
    for number in range(5000):
        one = layer("disk", 2.0 if number == 1234 else 0.001)
        history.take(replace(known(one), written=NOW + 3 * number))
    points = history.rows["disk"]
    assert 50 <= len(points) <= 100
    assert [one.at for one in points if one.last == 2.0] == [NOW + 3 * 1234]
    assert [one.at for one in points] == sorted(one.at for one in points)


HUNG = replace(layer("leg"), in_flight_since=NOW - 30)
HOSTILE = layer("xfs on /$x_{$\x1b]0;x\x07 <&'\"\u202e")


def test_a_chart_has_a_panel_for_each_row_whatever_it_is_called(tmp_path: Path) -> None:
    history = History()
    for number in range(30):
        history.take(replace(known(HOSTILE, HUNG), written=NOW + 3 * number))
    chart.draw(history, "of $today$", tmp_path / "a.svg")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert sum(one.get("id", "").startswith("axes_") for one in root.iter()) == 2
    chart.draw(history, "of today", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_said_before_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageProblem, match=r"must end in \.svg or \.png"):
        charts.require(Path("a.pdf"))
    monkeypatch.setattr(charts.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageProblem, match=r"pip install 'ditseed\[charts\]'"):
        charts.require(Path("a.svg"))


def test_bars_stand_on_whole_powers_of_ten() -> None:
    points = [Point(0, seconds) for seconds in (0.00012, 0.0012, 0.9)] + [Point(0), Point(0, 0.0)]
    scale = Scale.of(points)
    assert scale.told("▁█") == "▁ 0.1 to █ 1000 ms"
    assert "".join(scale.bar(one, "▁▂▃▄▅▆▇█") for one in points) == "▁▃█  "
    Scale.of([])


def line(state: State, **more: object) -> str:
    import msgspec

    return json.dumps({"report": 1, **msgspec.to_builtins(state), **more}) + "\n"


def test_a_replay_shows_the_last_round_and_draws_all(tmp_path: Path) -> None:
    kept = tmp_path / "lines"
    kept.write_text("".join(line(known(HOSTILE, said=f"round {n}")) for n in range(9)))
    done = ditseed("storage", "watch", "--replay", kept, "--chart", tmp_path / "a.svg").ok()
    assert done.out.splitlines()[-1] == "verdict: round 8"
    assert (done.out.count("xfs on /$x_{$\\x1b]0;x"), "\x1b" in done.out) == (1, False)
    assert (tmp_path / "a.svg").exists()


GOOD = line(known(layer("a")))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        (GOOD + GOOD[:-30], "line 2: it is cut short"),
        (GOOD + "{}\n", "line 2 is none of"),
        ("\x00\xff\n", "line 1 is none of"),
        ("[" * 100000 + "\n", "line 1 is none of"),
        ("x" * (5 << 20), "longer than a line can be"),
        (line(known(layer("a")), written=1e300), "line 1 is none of"),
        (line(known(layer("a")), format=7), "format 7"),
        (GOOD.replace("0.002", "-1"), "line 1 is none of"),
        (GOOD.replace("0.002", "NaN"), "line 1 is none of"),
    ],
)
def test_what_is_no_watch_is_named(tmp_path: Path, text: str, reason: str) -> None:
    kept = tmp_path / "lines"
    kept.write_text(text, encoding="latin-1")
    with pytest.raises(UsageProblem, match=re.escape(reason)):
        list(replay.rounds(kept))
