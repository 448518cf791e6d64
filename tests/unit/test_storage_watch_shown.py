"""What `storage watch` says of its probes."""

from __future__ import annotations

from loader.operations.storage import verdict

LAYERS = ("fs", "disk")
QUIET = {name: dict.fromkeys(range(30), 0.0004) for name in LAYERS}


def said(probe: str, own: dict[int, float], layers: dict[str, dict[int, float]] = QUIET) -> str:
    return "; ".join(verdict.slow_probes([probe], LAYERS, {**layers, probe: own}))


def test_a_slow_probe_is_told_where_no_layer_is_slow() -> None:
    slow = dict.fromkeys(range(30), 0.05)
    assert said("write in /x", slow).startswith("write in /x takes 50.00 ms, and no read of a layer more than 0.40 ms")
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
