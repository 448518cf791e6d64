"""A figure of matplotlib as an SVG element that stands in a page with others and refers to nothing outside of it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_NO_METADATA: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def figure(width: float, height: float, panels: int = 1) -> tuple[Figure, Sequence[Axes]]:
    """With panels above each other; in inches."""
    from matplotlib.figure import Figure  # here, because it takes long to import

    made = Figure(figsize=(width, height), layout="constrained")
    made.patch.set_alpha(0)
    found = made.subplots(panels, 1, sharex=True, squeeze=False)[:, 0].tolist()
    for panel in found:
        panel.tick_params(labelsize=8)
        panel.xaxis.label.set_size(9)
        panel.yaxis.label.set_size(9)
        panel.grid(True, axis="both" if panels > 1 else "x", color="#d0d0d0", lw=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return made, found


def element(drawn: Figure, name: str) -> str:
    """name: of the chart within its page."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), catch_warnings():
        # Whatever the names are written in: it is the browser that has the fonts.
        filterwarnings("ignore", "Glyph .* missing from")
        drawn.savefig(buffer, format="svg", metadata=_NO_METADATA)
    root = ElementTree.fromstring(buffer.getvalue())
    _simplify(root)
    return ElementTree.tostring(root, encoding="unicode")


def _simplify(root: ElementTree.Element) -> None:
    """No namespaces, which HTML knows itself; no metadata; no IDs that nothing refers to: every chart has the same."""
    used = set(_references(root))
    for one in root.iter():
        for child in [child for child in one if _local(child.tag) == "metadata"]:
            one.remove(child)
        if _LINK in one.attrib:
            one.set("href", one.attrib.pop(_LINK))
        if one.get("id") not in used:
            one.attrib.pop("id", None)
        one.tag = _local(one.tag)


def _references(root: ElementTree.Element) -> Iterator[str]:
    for one in root.iter():
        yield one.get(_LINK, "").removeprefix("#")
        for value in one.attrib.values():
            yield from _REFERENCE.findall(value)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
