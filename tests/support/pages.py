"""Parses a page of --report: its elements, their attributes and text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

# Attributes with references; a reference to a part of the same page begins with #.
REFERRING = {
    *("src", "srcset", "href", "xlink:href", "action", "formaction", "data", "poster", "background"),
    *("cite", "longdesc", "manifest", "ping", "codebase", "profile", "usemap", "icon", "archive"),
}
ACTIVE = {"script", "iframe", "object", "link", "img", "svg"}
_VOID = {"meta", "link", "br", "hr", "img", "input", "base"}


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    text: str = ""
    path: tuple[str, ...] = ()  # IDs of the elements around it


@dataclass
class Page(HTMLParser):
    """Every element in document order; `text` of an element includes that of its descendants."""

    source: str
    elements: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[Element] = []
        self.feed(self.source)
        self.close()
        assert not self._open, self._open

    @classmethod
    def read(cls, path: Path) -> Page:
        return cls(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        around = tuple(one.attributes["id"] for one in self._open if "id" in one.attributes)
        found = Element(tag, {name: value or "" for name, value in attrs}, path=around)
        self.elements.append(found)
        if tag not in _VOID:
            self._open.append(found)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self._open.pop().name == tag

    def handle_data(self, data: str) -> None:
        for one in self._open:
            one.text += data

    def named(self, name: str) -> list[Element]:
        return [one for one in self.elements if one.name == name]

    def by_id(self, found: str) -> Element:
        (one,) = [one for one in self.elements if one.attributes.get("id") == found]
        return one

    def value(self, found: str) -> float:
        """Returns the value of an element `data`."""
        return float(self.by_id(found).attributes["value"])

    def within(self, around: str, name: str) -> list[Element]:
        return [one for one in self.named(name) if around in one.path]


def outside(page: Page) -> list[str]:
    """Returns everything that refers to another page or runs code."""
    pairs = [(one.name, name, value) for one in page.elements for name, value in one.attributes.items()]
    found = [
        f"{element} {name}={value}"
        for element, name, value in pairs
        if (name in REFERRING and not value.startswith("#")) or name.startswith("on")
    ]
    styles = [one.text for one in page.named("style")] + [value for _, name, value in pairs if name == "style"]
    found += [text for text in styles if "@import" in text or "url(" in text]
    return found + [one.name for one in page.elements if one.name in ACTIVE]
