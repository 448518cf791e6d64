"""Reading the text of a slapd.conf, and finding the lines that an operator must change for a new setting.

ditseed never writes one. What the text means is slapd's to say. How lines are joined and cut into words follows slapd's
own reader (servers/slapd/config.c, fp_getline and strtok_quote).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import dn, indexes, words
from loader.config import Change

TextOf = Callable[[Path], str | None]  # None: a file that cannot be read (a schema elsewhere)

KEYWORDS = {
    "olcDbMaxSize": "maxsize",
    "olcDbIndex": "index",
    "olcDbNoSync": "dbnosync",
    "olcDbEnvFlags": "envflags",
    "olcDbCheckpoint": "checkpoint",
}


@dataclass(frozen=True)
class Statement:
    """One directive and the lines it takes: [first, last) of `file`, counted from 0."""

    file: Path
    first: int
    last: int
    words: tuple[str, ...]

    @property
    def said(self) -> str:
        return " ".join(self.words[1:])

    @property
    def typed(self) -> str:
        return " ".join(self.words)

    @property
    def keyword(self) -> str:
        return self.words[0].lower()


def lines_to_change(
    main: Path, suffix: str, changes: Sequence[Change], text_of: TextOf
) -> list[str]:
    """For the operator, who edits the file: each place (file, line number), and below it the lines to put there."""
    found = list(statements(main, text_of))
    block = _block(found, suffix)
    if not block:
        lines = (f"{KEYWORDS[one.attribute]} {text}" for one in changes for text in one.after)
        return [f"{main}, in the section of the database {suffix}:", *lines]
    return [line for change in changes for line in _to_change(found, block, suffix, change)]


def _to_change(
    found: Sequence[Statement], block: Sequence[Statement], suffix: str, change: Change
) -> Iterator[str]:
    keyword = KEYWORDS[change.attribute]
    old = [one for one in block if one.keyword == keyword]
    if keyword == "index":
        kept, new = _kept_indexes(old, change)
    else:
        kept, new = [None for _ in old], list(change.after)
    for one, text in zip(old, kept, strict=True):
        if text != one.said:
            lines = [] if text is None else [text]
            if one is old[-1]:
                lines, new = [*lines, *new], []
            does = "in place of" if lines else "remove"
            yield f"{_lines_of(found, one)}, {does} `{one.typed}`{':' if lines else ''}"
            yield from (f"{keyword} {line}" for line in lines)
    if new:
        directory = next((one for one in block if one.keyword == "directory"), block[0])
        after = old[-1] if old else directory
        yield f"{_lines_of(found, after)}, after `{after.typed}` of the database {suffix}:"
        yield from (f"{keyword} {line}" for line in new)


def _lines_of(found: Sequence[Statement], one: Statement) -> str:
    last = f" to {one.last}" if one.last > one.first + 1 else ""
    readings = [other for other in found if (other.file, other.first) == (one.file, one.first)]
    shared = " (included more than once: the change counts for each)" if readings[1:] else ""
    return f"{one.file}, line {one.first + 1}{last}{shared}"


def inlined(main: Path, texts: dict[Path, str], text_of: TextOf) -> str:
    """The text of `main` with changed includes put in place of their `include` lines: what slapd would read."""

    def new(path: Path) -> str | None:
        return texts.get(path, text_of(path))

    changed = {path for path in texts if path != main}
    text = new(main) or ""
    lines = _lines(text)
    for one in reversed(list(_own_statements(main, text))):
        if one.keyword != "include" or len(one.words) != 2:
            continue
        included = Path(one.words[1])
        if any(file in changed for file in _files(included, text_of)):
            lines[one.first : one.last] = [_ended(inlined(included, texts, text_of))]
    return "".join(lines)


def without(main: Path, keyword: str, text_of: TextOf) -> str | None:
    """What slapd would read, with empty lines in the place of such statements; None where there are none."""
    found = [one for one in statements(main, text_of) if one.keyword == keyword]
    texts = {}
    for file in {one.file for one in found}:
        lines = _lines(text_of(file) or "")
        for one in found:
            if one.file == file:
                lines[one.first : one.last] = ["\n"] * (one.last - one.first)
        texts[file] = "".join(lines)
    return inlined(main, texts, text_of) if texts else None


def whole(main: Path, keyword: str, text_of: TextOf) -> str:
    """The same in one text, whatever it includes."""
    kept = without(main, keyword, text_of)
    if kept is None:
        return inlined(
            main, {one.file: text_of(one.file) or "" for one in statements(main, text_of)}, text_of
        )
    return kept


def statements(path: Path, text_of: TextOf, within: tuple[Path, ...] = ()) -> Iterator[Statement]:
    """The directives slapd would see, those of included files in their place."""
    text = text_of(path)
    if text is None or path in within:
        return
    for one in _own_statements(path, text):
        if one.keyword == "include" and len(one.words) == 2:
            yield from statements(Path(one.words[1]), text_of, (*within, path))
        else:
            yield one


def _files(path: Path, text_of: TextOf) -> set[Path]:
    text = text_of(path) or ""
    below = (one for one in _own_statements(path, text) if one.keyword == "include")
    return {path, *(file for one in below for file in _files(Path(one.words[-1]), text_of))}


def _own_statements(path: Path, text: str) -> Iterator[Statement]:
    lines = [line.rstrip("\r\n") for line in _lines(text)]
    first = 0
    while first < len(lines):
        last, joined = _joined(lines, first)
        said = () if joined.startswith("#") else tuple(words.of_line(joined))
        if said:
            yield Statement(path, first, last, said)
        first = last


def _joined(lines: Sequence[str], first: int) -> tuple[int, str]:
    """A line with the ones that continue it (they begin with white space, or follow a backslash at an end)."""
    joined, last = lines[first], first + 1
    if joined.lower().startswith("include"):
        return last, joined
    while last < len(lines):
        if re.search(r"(?<!\\)\\$", joined):
            joined = joined[:-1] + lines[last]
        elif lines[last][:1].isspace():
            joined += " " + lines[last][1:]
        else:
            break
        last += 1
    return last, joined


def sections(found: Sequence[Statement]) -> Iterator[list[Statement]]:
    """From each `database` or `backend` on to the next. What follows a proxy cache configures the cache."""
    starts = [place for place, one in enumerate(found) if one.keyword in ("database", "backend")]
    for start, end in itertools.pairwise([*starts, len(found)]):
        caches = [at for at in range(start, end) if _is_cache(found[at])]
        yield list(found[start : caches[0] if caches else end])


def _block(found: Sequence[Statement], suffix: str) -> list[Statement]:
    """The directives of the database that holds `suffix`; none if it is in a file that cannot be read."""
    for block in sections(found):
        names = [name for one in block if one.keyword == "suffix" for name in one.words[1:]]
        if any(dn.key(name) == dn.key(suffix) for name in names):
            return block
    return []


def _is_cache(one: Statement) -> bool:
    return one.keyword == "overlay" and one.words[1:2] in (("pcache",), ("proxycache",))


def _kept_indexes(old: Sequence[Statement], change: Change) -> tuple[list[str | None], list[str]]:
    """What each present line still says (None: it goes), and what new lines must say. Only what the change takes away
    goes: slapd does not show every index that it reads."""
    before, after = indexes.parse(change.before), indexes.parse(change.after)
    goes = before.keys() - indexes.kept(before, after).keys()
    comes = after.keys() - indexes.kept(after, before).keys()
    present = indexes.parse(one.said for one in old)
    left = {key: one for key, one in present.items() if key not in goes}
    lines = [indexes.remaining_line(one.said, present, left) or None for one in old]
    return lines, [str(one) for key, one in after.items() if key in comes]


def _lines(text: str) -> list[str]:
    """With their ends. Not splitlines(): only a newline ends a line for slapd."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _ended(text: str) -> str:
    return text if not text or text.endswith(("\n", "\r")) else text + "\n"
