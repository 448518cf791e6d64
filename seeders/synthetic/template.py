"""Reading a template: a TOML file that says which containers there are, and what an entry is.

Everything an operator can get wrong in it is found here, with the line.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader.errors import NoSuchTemplate, TemplateError
from seeders.synthetic.tags import KINDS, Scope, TagError, compile_text, tags_in

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
_KEYS = {
    "": {"description", "branches", "lists", "values", "entry"},
    "entry": {"below", "rdn", "structural", "attributes"},
}
_DESCRIPTION = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*(;[a-zA-Z0-9-]+)*")  # RFC 4512 2.5
_BRANCH = re.compile(r"(ou|o|l|c|dc)=[^,+\"\\<>;=#]+", re.IGNORECASE)


@dataclass(frozen=True)
class Template:
    """A checked template. Texts hold tags; `branches` and `below` are relative to the suffix."""

    name: str
    description: str
    branches: tuple[str, ...]
    lists: Mapping[str, tuple[str, ...]]
    values: Mapping[str, str]
    below: str  # "" for the suffix itself
    rdn: str
    structural: str  # the structural object class, which --operational names; "" when not said
    attributes: Mapping[str, tuple[str, ...]]

    @property
    def fingerprint(self) -> str:
        """Of all that decides its entries; two files that say the same have the same."""
        return hashlib.sha256(repr(dataclasses.astuple(self)).encode()).hexdigest()


def shipped() -> dict[str, Path]:
    """The templates that come with ditseed, by name."""
    return {path.stem: path for path in sorted((HERE / "templates").glob("*.toml"))}


def load(name: str) -> Template:
    """A shipped template by name, or another by path. Raises NoSuchTemplate, TemplateError."""
    path = shipped().get(name, Path(name))
    try:
        source = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise TemplateError(path=path, reason=f"not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise NoSuchTemplate(name=name, known=", ".join(shipped())) from error
    try:
        return _Reader(path, source, tomllib.loads(source)).template()
    except tomllib.TOMLDecodeError as error:
        raise TemplateError(path=path, reason=str(error).lower()) from error


@dataclass(frozen=True)
class _Reader:
    """One file being read; `found` is what TOML makes of it."""

    path: Path
    source: str
    found: Mapping[str, Any]

    def template(self) -> Template:
        self._check_keys("", self.found)
        entry = self._table(self.found, "entry")
        self._check_keys("entry", entry)
        made = Template(
            name=self.path.stem,
            description=self._text("", self.found, "description", ""),
            branches=self._texts("", self.found, "branches", ()),
            lists={key: self._list(key) for key in self._table(self.found, "lists")},
            values={
                key: self._text("values", self._table(self.found, "values"), key)
                for key in self._values()
            },
            below=self._text("entry", entry, "below", ""),
            rdn=self._text("entry", entry, "rdn"),
            structural=self._text("entry", entry, "structural", ""),
            attributes={
                key: self._texts("entry.attributes", entry["attributes"], key)
                for key in self._table(entry, "attributes", "entry.")
            },
        )
        self._check_branches(made)
        self._check_values(made)
        self._check_entry(made)
        return made

    # --- shapes -------------------------------------------------------------------------------

    def _table(self, holder: Mapping[str, Any], key: str, prefix: str = "") -> Mapping[str, Any]:
        table = holder.get(key, {})
        if not isinstance(table, dict):
            raise self._wrong(prefix.rstrip("."), key, "must be a table")
        return table

    def _values(self) -> Iterable[str]:
        return self._table(self.found, "values")

    def _text(
        self, table: str, holder: Mapping[str, Any], key: str, default: str | None = None
    ) -> str:
        value = holder.get(key, default)
        if value is None:
            raise self._wrong(table, key, f"{key} is missing")
        if not isinstance(value, str):
            raise self._wrong(table, key, f"{key} must be a text in quotes")
        return value

    def _texts(
        self,
        table: str,
        holder: Mapping[str, Any],
        key: str,
        default: tuple[str, ...] | None = None,
    ) -> tuple[str, ...]:
        value = holder.get(key, default)
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list | tuple) or not all(isinstance(one, str) for one in values):
            raise self._wrong(table, key, f"{key} must be a text, or a list of texts")
        return tuple(values)

    def _list(self, key: str) -> tuple[str, ...]:
        """A list file: beside the template, or else one that is shipped."""
        name = self._text("lists", self.found["lists"], key)
        for place in (self.path.parent / name, HERE / "data" / name):
            if place.is_file():
                lines = tuple(
                    line for line in place.read_text("utf-8").splitlines() if line.strip()
                )
                if lines:
                    return lines
                raise self._wrong("lists", key, f"{place} is empty")
        raise self._wrong(
            "lists", key, f"no file {name} beside the template or among the shipped lists"
        )

    # --- sense --------------------------------------------------------------------------------

    def _check_keys(self, table: str, holder: Mapping[str, Any]) -> None:
        for key in holder:
            if key not in _KEYS[table]:
                known = ", ".join(sorted(_KEYS[table]))
                raise self._wrong(table, key, f"unknown key {key} (there are: {known})")

    def _check_branches(self, made: Template) -> None:
        seen = {""}
        for branch in made.branches:
            rdn, _, parent = branch.partition(",")
            if not _BRANCH.fullmatch(rdn):
                raise self._wrong(
                    "", "branches", f"{branch!r}: a branch begins with ou=, o=, l=, c= or dc="
                )
            if parent not in seen:
                raise self._wrong(
                    "", "branches", f"{branch!r}: its parent {parent!r} must stand before it"
                )
            seen.add(branch)
        if made.below not in seen:
            raise self._wrong("entry", "below", f"{made.below!r} is not one of the branches")

    def _check_values(self, made: Template) -> None:
        known: set[str] = set()
        for name, text in made.values.items():
            if name in KINDS:
                raise self._wrong("values", name, f"{name} is the name of a tag; choose another")
            self._check_text("values", name, text, made, known)
            known.add(name)

    def _check_entry(self, made: Template) -> None:
        known = set(made.values)
        for name, texts in made.attributes.items():
            if not _DESCRIPTION.fullmatch(name):
                raise self._wrong("entry.attributes", name, f"{name!r} is not an attribute name")
            for text in texts:
                self._check_text("entry.attributes", name, text, made, known)
        by_case = {name.lower(): name for name in made.attributes}
        if len(by_case) < len(made.attributes):
            raise self._wrong(
                "entry.attributes", "", "an attribute stands twice (names differ in case only)"
            )
        if "objectclass" not in by_case:
            raise self._wrong("entry.attributes", "", "objectClass is missing")
        self._check_rdn(made)

    def _check_rdn(self, made: Template) -> None:
        texts = made.attributes.get(made.rdn)
        if texts is None or len(texts) != 1:
            raise self._wrong(
                "entry", "rdn", f"{made.rdn} must be an attribute of the entry with one value"
            )
        if not any(tag == "number" for tag in _all_tags(texts[0], made.values)):
            reason = f"{made.rdn} names the entries: without {{number}} two could have one name"
            raise self._wrong("entry.attributes", made.rdn, reason)

    def _check_text(
        self, table: str, key: str, text: str, made: Template, known: Iterable[str]
    ) -> None:
        try:
            compile_text(text, key, Scope(0, "", made.lists, frozenset(known)))
        except TagError as error:
            raise self._wrong(table, key, f"{key}: {error}") from error

    # --- where --------------------------------------------------------------------------------

    def _wrong(self, table: str, key: str, reason: str) -> TemplateError:
        return TemplateError(path=self.path, reason=f"line {self._line(table, key)}: {reason}")

    def _line(self, table: str, key: str) -> int:
        """The line of `key`, or of its table, or 1."""
        current, at = "", 1
        for number, line in enumerate(self.source.splitlines(), 1):
            header = re.match(r"\s*\[+([^\]]+)\]", line)
            if header:
                current = header[1].strip()
                if current == table or (not table and current == key):
                    at = number
            elif (
                current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line) and key
            ):
                return number
        return at


def _all_tags(text: str, values: Mapping[str, str]) -> Iterator[str]:
    """The tags in `text` and in the values it names."""
    for tag in tags_in(text):
        yield tag
        if tag in values:
            yield from _all_tags(values[tag], values)
