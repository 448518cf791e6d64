"""Editing the text of a slapd.conf: only the lines of one setting change, everything else stays as it was typed.

Text in, text out; what it means is slapd's to say. How lines are joined and cut into words follows slapd's own reader
(servers/slapd/config.c, fp_getline and strtok_quote).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import dn, indexes, words
from loader.config import Change
from loader.errors import ConfigNotEditable

TextOf = Callable[[Path], str | None]  # None: a file that cannot be read (a schema elsewhere)

KEYWORDS = {
    "olcDbMaxSize": "maxsize",
    "olcDbIndex": "index",
    "olcDbNoSync": "dbnosync",
    "olcDbEnvFlags": "envflags",
    "olcDbCheckpoint": "checkpoint",
}
_BY_HAND = "Change it by hand, check it with slaptest -u, and restart slapd."


@dataclass(frozen=True)
class Statement:
    """One directive and the lines it takes: [first, last) of `file`, counted from 0."""

    file: Path
    first: int
    last: int
    words: tuple[str, ...]
    lead: str  # the keyword and the white space behind it, as typed

    @property
    def said(self) -> str:
        return " ".join(self.words[1:])

    @property
    def keyword(self) -> str:
        return self.words[0].lower()


@dataclass(frozen=True)
class Edit:
    """Put `lines` in the place of [first, last) of `file`."""

    file: Path
    first: int
    last: int
    lines: tuple[str, ...]


def edited(main: Path, suffix: str, changes: Sequence[Change], text_of: TextOf) -> dict[Path, str]:
    """The files (`main`, or what it includes) that change, with their new text. Raises ConfigNotEditable."""
    block = _block(list(statements(main, text_of)), suffix, main)
    edits = [edit for change in changes for edit in _edits(block, change)]
    texts: dict[Path, str] = {}
    for file in {edit.file for edit in edits}:
        texts[file] = _applied(text_of(file) or "", [one for one in edits if one.file == file])
    return texts


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
    edits = [Edit(one.file, one.first, one.last, ("",) * (one.last - one.first)) for one in found]
    texts = {
        file: _applied(text_of(file) or "", [one for one in edits if one.file == file])
        for file in {one.file for one in edits}
    }
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
            lead = re.match(r"\S+\s*", joined)
            yield Statement(path, first, last, said, lead[0] if lead else said[0] + " ")
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


def _block(found: Sequence[Statement], suffix: str, main: Path) -> list[Statement]:
    """The directives of the database that holds `suffix`."""
    for block in sections(found):
        names = [name for one in block if one.keyword == "suffix" for name in one.words[1:]]
        if any(dn.key(name) == dn.key(suffix) for name in names):
            return block
    raise ConfigNotEditable(
        path=main, reason=f"no `database` section with suffix {suffix} in the text", advice=_BY_HAND
    )


def _is_cache(one: Statement) -> bool:
    return one.keyword == "overlay" and one.words[1:2] in (("pcache",), ("proxycache",))


def _edits(block: Sequence[Statement], change: Change) -> Iterator[Edit]:
    keyword = KEYWORDS[change.attribute]
    old = [one for one in block if one.keyword == keyword]
    kept, new = _KEPT.get(keyword, _kept_nothing)(old, change)
    for one, says in zip(old, kept, strict=True):
        more = new if one is old[-1] else []
        lead = one.lead if one.lead[-1:].isspace() else f"{keyword} "
        if says != one.said:
            texts = [*([] if says is None else [says]), *more]
            yield Edit(one.file, one.first, one.last, tuple(lead + text for text in texts))
        elif more:
            yield Edit(one.file, one.last, one.last, tuple(lead + text for text in more))
    if not old and new:
        anchor = next((one for one in block if one.keyword == "directory"), block[0])
        lines = tuple(f"{keyword} {text}" for text in new)
        yield Edit(anchor.file, anchor.last, anchor.last, lines)


# What each present line still says (None: it goes), and what new lines must say.
Kept = tuple[list[str | None], list[str]]


def _kept_nothing(old: Sequence[Statement], change: Change) -> Kept:
    return [None for _ in old], list(change.after)


def _kept_flags(old: Sequence[Statement], change: Change) -> Kept:
    wanted = [flag for value in change.after for flag in value.split()]
    said = {flag for one in old for flag in one.words[1:]}
    kept = [" ".join(flag for flag in one.words[1:] if flag in wanted) or None for one in old]
    return kept, [flag for flag in wanted if flag not in said]


def _kept_indexes(old: Sequence[Statement], change: Change) -> Kept:
    """Only what the change takes away is taken from the text: slapd does not show every index that it reads."""
    before, after = indexes.parse(change.before), indexes.parse(change.after)
    goes = before.keys() - indexes.kept(before, after).keys()
    comes = after.keys() - indexes.kept(after, before).keys()
    present = indexes.parse(one.said for one in old)
    left = {key: one for key, one in present.items() if key not in goes}
    lines = [indexes.remaining_line(one.said, present, left) or None for one in old]
    return lines, [str(one) for key, one in after.items() if key in comes]


_KEPT: dict[str, Callable[[Sequence[Statement], Change], Kept]] = {
    "index": _kept_indexes,
    "envflags": _kept_flags,
}


def _applied(text: str, edits: Sequence[Edit]) -> str:
    lines = _lines(text)
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    if lines:
        lines[-1] = _ended(lines[-1], newline)
    for edit in sorted(edits, key=lambda one: (one.first, one.last), reverse=True):
        lines[edit.first : edit.last] = [line + newline for line in edit.lines]
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """With their ends. Not splitlines(): only a newline ends a line for slapd."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _ended(text: str, newline: str = "\n") -> str:
    return text if not text or text.endswith(("\n", "\r")) else text + newline
