"""Reads the text of a slapd.conf, and finds the lines that an operator must change for a new setting.

ditseed never writes a slapd.conf, and leaves the meaning of its text to slapd. Lines are joined and split into words as
slapd does it (servers/slapd/config.c, fp_getline and strtok_quote)."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import dn, indexes, values
from loader.config import Change, Entry
from loader.indexes import Index, Indexes
from loader.schema import DEFINITIONS, ROOT
from loader.values import Attributes

TextOf = Callable[[Path], str | None]  # returns the text of a file; None: unreadable (a schema elsewhere)

KEYWORDS = {
    "olcDbMaxSize": "maxsize",
    "olcDbIndex": "index",
    "olcDbNoSync": "dbnosync",
    "olcDbEnvFlags": "envflags",
    "olcDbCheckpoint": "checkpoint",
}


@dataclass(frozen=True)
class Statement:
    """One directive. `first`, `last`: its lines in `file` are [first, last), counted from 0."""

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


def lines_to_change(main: Path, suffix: str, changes: Sequence[Change], text_of: TextOf) -> list[str]:
    """Returns instructions for the operator: each place (file and line number), followed by the lines to put there."""
    found = list(statements(main, text_of))
    block = _block(found, suffix)
    if not block:
        lines = (f"{KEYWORDS[one.attribute]} {text}" for one in changes for text in one.after)
        return [f"{main}, in the section of the database {suffix}:", *lines]
    return [line for change in changes for line in _to_change(found, block, suffix, change)]


def _to_change(found: Sequence[Statement], block: Sequence[Statement], suffix: str, change: Change) -> Iterator[str]:
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
        yield f"{_lines_of(found, after)}, add after `{after.typed}` of the database {suffix}:"
        yield from (f"{keyword} {line}" for line in new)


def _lines_of(found: Sequence[Statement], one: Statement) -> str:
    last = f" to {one.last}" if one.last > one.first + 1 else ""
    readings = [other for other in found if (other.file, other.first) == (one.file, one.first)]
    shared = " (included more than once: the change counts for each)" if readings[1:] else ""
    return f"{one.file}, line {one.first + 1}{last}{shared}"


def inlined(main: Path, texts: dict[Path, str], text_of: TextOf) -> str:
    """Returns the text of `main`, in which changed files replace the `include` lines that name them."""

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
    """Returns the text of `main` with empty lines instead of the `keyword` directives; None if there are none."""
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
    """Like `without`, but returns one text in every case."""
    kept = without(main, keyword, text_of)
    if kept is None:
        return inlined(main, {one.file: text_of(one.file) or "" for one in statements(main, text_of)}, text_of)
    return kept


def statements(path: Path, text_of: TextOf, within: tuple[Path, ...] = ()) -> Iterator[Statement]:
    """Yields the directives that slapd would see; those of an included file replace its `include` line."""
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
        said = () if joined.startswith("#") else tuple(values.of_line(joined))
        if said:
            yield Statement(path, first, last, said)
        first = last


def _joined(lines: Sequence[str], first: int) -> tuple[int, str]:
    """Joins a line with its continuations, which begin with white space or follow a backslash. Returns (end, text)."""
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
    """Yields the directives of each `database` or `backend`, except those after a proxy cache, which configure it."""
    starts = [at for at, one in enumerate(found) if one.keyword in ("database", "backend")]
    for start, end in itertools.pairwise([*starts, len(found)]):
        yield list(itertools.takewhile(lambda one: not _is_cache(one), found[start:end]))


def _block(found: Sequence[Statement], suffix: str) -> list[Statement]:
    """Returns the directives of the database with `suffix`; none if they are in a file that cannot be read."""
    for block in sections(found):
        names = [name for one in block if one.keyword == "suffix" for name in one.words[1:]]
        if any(dn.key(name) == dn.key(suffix) for name in names):
            return block
    return []


def _is_cache(one: Statement) -> bool:
    return one.keyword == "overlay" and one.words[1:2] in (("pcache",), ("proxycache",))


def _kept_indexes(old: Sequence[Statement], change: Change) -> tuple[list[str | None], list[str]]:
    """Returns the new text of each present index line (None: remove it), and the texts of new lines. Removes only the
    indexes that `change` drops, because slapd does not show every index that it reads."""
    before, after = indexes.parse(change.before), indexes.parse(change.after)
    goes = before.keys() - indexes.kept(before, after).keys()
    comes = after.keys() - indexes.kept(after, before).keys()
    present = indexes.parse(one.said for one in old)
    left = {key: one for key, one in present.items() if key not in goes}
    lines = [indexes.remaining_line(one.said, present, left) or None for one in old]
    return lines, [str(one) for key, one in after.items() if key in comes]


def _lines(text: str) -> list[str]:
    """Splits a text into lines, newlines included. splitlines() would split at more than the newlines slapd knows."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _ended(text: str) -> str:
    return text if not text or text.endswith(("\n", "\r")) else text + "\n"


# --- conversion ------------------------------------------------------------------------------------------------------
#
# Restores from the text of a slapd.conf what slapd loses when it converts the file to cn=config.
#
# slapd -f and slapadd -f follow the text. The conversion that slapcat prints comes from slapd's memory, and differs in:
#
# - two of the kinds subinitial, subany and subfinal of one index: the conversion has one of them, or all three
#   (index.c, slap_index2bv);
# - `attributeoptions` without an option, which removes "lang-" (ad.c, ad_unparse_options);
# - the order of definitions: those in the slapd.conf itself precede, in cn=config, those of included files, on which
#   they may depend;
# - the quotes around a path with spaces (config.c, config_get_vals): slapd could not read its own conversion.


_DEFINITIONS = DEFINITIONS[1:]  # macros stay in cn=config: they depend on no other definition
_OWN_SCHEMA = "slapd.conf"  # name of the entry for definitions in the slapd.conf itself
_INDEX, _OPTIONS = "olcDbIndex", "olcAttributeOptions"
_PATHS = ("olcdbdirectory", "olcpidfile", "olcargsfile", "olcmodulepath", "olclogfile")
_NAMES = re.compile(r"\(\s*(\S+)\s+NAME\s+(?:'([^']*)'|\(([^)]*)\))")


def require_readable(entries: Sequence[Entry]) -> list[Entry]:
    """Returns `entries`, as a server shows them, with paths quoted: a server with a slapd.conf omits the quotes."""
    return [(name, _with_paths(attributes, values.as_single)) for name, attributes in entries]


def restored(converted: Sequence[Entry], found: Sequence[Statement]) -> list[Entry]:
    """Returns `converted`, the entries that slapcat made of the statements `found`, with what the conversion lost."""
    configured = _indexes(found, _names(converted))
    has_options = any(one.keyword == "attributeoptions" for one in found)
    entries = []
    for name, attributes in converted:
        mended = _with_paths(attributes, values.as_value)
        # Excludes the databases of an overlay: olcDatabase={1}ldap,olcOverlay={0}chain,...
        number = re.fullmatch(r"olcDatabase=\{(\d+)\}[^,]*,cn=config", name, re.IGNORECASE)
        if number and number[1] in configured:
            mended.update(_with_kinds_of_text(attributes.get(_INDEX, ()), configured[number[1]]))
        if name == "cn=config" and has_options:
            mended.setdefault(_OPTIONS, [b""])
        entries.append((name, mended))
    return _in_order(entries)


def _in_order(entries: Sequence[tuple[str, dict[str, Sequence[bytes]]]]) -> list[Entry]:
    """Moves the definitions in cn=config to a separate schema entry, after the other schema entries."""
    schemas = [at for at, (name, _) in enumerate(entries) if name.lower().endswith("," + ROOT)]
    ordered: list[Entry] = list(entries)
    if not schemas:
        return ordered
    own: dict[str, Sequence[bytes]] = {}
    for name, attributes in entries:
        if name.lower() == "cn=config":
            own |= {key: attributes.pop(key) for key in _DEFINITIONS if key in attributes}
    if own:
        name = f"{{{len(schemas)}}}{_OWN_SCHEMA}"
        attributes = {"objectClass": [b"olcSchemaConfig"], "cn": [name.encode()], **own}
        ordered.insert(schemas[-1] + 1, (f"cn={name},{ROOT}", attributes))
    return ordered


def _with_paths(attributes: Attributes, written: Callable[[str], str]) -> dict[str, Sequence[bytes]]:
    return {
        key: [os.fsencode(written(os.fsdecode(one))) for one in each] if key.lower() in _PATHS else each
        for key, each in attributes.items()
    }


def _with_kinds_of_text(converted: Sequence[bytes], told: Indexes) -> dict[str, list[bytes]]:
    """Returns the union of both: an included file may be unreadable, so `told` alone can lack indexes."""
    shown = indexes.parse(value.decode() for value in converted)
    both = indexes.parse(map(str, (*shown.values(), *told.values())))
    lines = [str(one).encode() for one in both.values()]
    return {_INDEX: lines} if lines else {}


def _indexes(found: Sequence[Statement], names: Mapping[str, str]) -> dict[str, Indexes]:
    """Returns number of an mdb database -> its indexes. slapd numbers all databases except frontend and config."""
    databases = [one for one in sections(found) if one[0].keyword == "database"]
    counted = [one for one in databases if one[0].said.lower() not in ("frontend", "config")]
    configured: dict[str, Indexes] = {}
    for number, section in enumerate(counted, start=1):
        if section[0].said.lower() == "mdb":
            lines = (" ".join(map(values.as_value, one.words[1:])) for one in section if one.keyword == "index")
            parsed = indexes.parse(lines).values()
            written = (Index(_canonical(one.attribute, names), one.kinds) for one in parsed)
            configured[str(number)] = {one.key: one for one in written}
    return configured


def _canonical(description: str, names: Mapping[str, str]) -> str:
    """Returns an attribute description as slapd writes it: the first name of the type, options sorted."""
    name, *options = description.split(";")
    return ";".join([names.get(name.lower(), name), *sorted(map(str.lower, options))])


def _names(entries: Sequence[Entry]) -> dict[str, str]:
    """Returns each name and OID of an attribute type, in lower case -> the first name of that type."""
    first: dict[str, str] = {}
    for _, attributes in entries:
        for value in attributes.get("olcAttributeTypes", ()):
            match = _NAMES.search(value.decode(errors="replace"))
            if match:
                names = [match[2]] if match[2] else re.findall(r"'([^']*)'", match[3] or "")
                first |= {alias.lower(): [*names, match[1]][0] for alias in (*names, match[1])}
    return first
