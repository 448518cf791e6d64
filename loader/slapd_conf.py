"""Reads the text of a slapd.conf, and finds the lines that an operator must change for a new setting. Lines are joined
and split into words as slapd does it (servers/slapd/config.c, fp_getline and strtok_quote)."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from loader import config, dn, indexes
from loader.backmdb import DEFINITIONS, ROOT
from loader.config import Attributes, Change, Entry
from loader.indexes import Index
from loader.storage import files

TextOf = Callable[[Path], str | None]  # returns the text of a file; None: unreadable (a schema elsewhere)

# Settings of back-mdb that ditseed changes.
KEYWORDS = {
    "olcDbMaxSize": "maxsize",
    "olcDbIndex": "index",
    "olcDbNoSync": "dbnosync",
    "olcDbEnvFlags": "envflags",
    "olcDbCheckpoint": "checkpoint",
}


class Statement(Struct, frozen=True):
    """One directive. `first`, `last`: its lines in `file` are [first, last), counted from 0."""

    file: Path
    first: int
    last: int
    words: tuple[str, ...]

    @property
    def keyword(self) -> str:
        return self.words[0].lower()

    @property
    def value(self) -> str:
        return " ".join(self.words[1:])


def file_text(path: Path) -> str | None:
    """Returns the text of a slapd.conf or an included file; None if it is unreadable. Bytes that are not UTF-8, such as
    comments in an old encoding, become surrogates. Raises FileUnsafe if another account may have replaced the file."""
    try:
        return files.read(path).decode("utf-8", "surrogateescape")
    except OSError:
        return None


def lines_to_change(main: Path, suffix: str, changes: Sequence[Change], text_of: TextOf = file_text) -> list[str]:
    """Returns instructions for the operator: each place (file and line number), followed by the lines to put there."""
    found = list(statements(main, text_of))
    for block in sections(found):
        names = [name for one in block if one.keyword == "suffix" for name in one.words[1:]]
        if any(dn.key(name) == dn.key(suffix) for name in names):
            return [line for change in changes for line in _to_change(found, block, suffix, change)]
    # The database is in a file that cannot be read.
    lines = (f"{KEYWORDS[one.attribute]} {text}" for one in changes for text in one.after)
    return [f"{main}, in the section of the database {suffix}:", *lines]


def _to_change(found: Sequence[Statement], block: Sequence[Statement], suffix: str, change: Change) -> Iterator[str]:
    def where(one: Statement) -> str:
        last = f" to {one.last}" if one.last > one.first + 1 else ""
        readings = [other for other in found if (other.file, other.first) == (one.file, one.first)]
        shared = " (included more than once: the change counts for each)" if readings[1:] else ""
        return f"{one.file}, line {one.first + 1}{last}{shared}"

    keyword = KEYWORDS[change.attribute]
    old = [one for one in block if one.keyword == keyword]
    kept, new = list[str | None]([None] * len(old)), list(change.after)  # None: the line goes
    if keyword == "index":
        # Removes only the indexes that `change` drops, because slapd does not show every index that it reads.
        before, after = indexes.parse(change.before), indexes.parse(change.after)
        goes = before.keys() - indexes.kept(before, after).keys()
        comes = after.keys() - indexes.kept(after, before).keys()
        present = indexes.parse(one.value for one in old)
        remaining = {key: one for key, one in present.items() if key not in goes}
        kept = [indexes.remaining_line(one.value, present, remaining) or None for one in old]
        new = [str(one) for key, one in after.items() if key in comes]
    for one, text in zip(old, kept, strict=True):
        if text != one.value:
            lines = [] if text is None else [text]
            if one is old[-1]:
                lines, new = [*lines, *new], []
            does = "in place of" if lines else "remove"
            yield f"{where(one)}, {does} `{' '.join(one.words)}`{':' if lines else ''}"
            yield from (f"{keyword} {line}" for line in lines)
    if new:
        directory = next((one for one in block if one.keyword == "directory"), block[0])
        after_this = old[-1] if old else directory
        yield f"{where(after_this)}, add after `{' '.join(after_this.words)}` of the database {suffix}:"
        yield from (f"{keyword} {line}" for line in new)


def copied(main: Path, root: str, keyword: str) -> dict[Path, str]:
    """Returns a slapd.conf and its included files, each below `root` at its own path, without `keyword`."""
    texts: dict[Path, str] = {}
    pending = [main]
    while pending:
        path = pending.pop()
        copy, text = Path(root + os.path.abspath(path)), file_text(path)
        if text is None or copy in texts:
            continue
        lines = _lines(text)
        for one in reversed(list(_own_statements(path, text))):
            if one.keyword == keyword:
                lines[one.first : one.last] = ["\n"] * (one.last - one.first)
            elif one.keyword == "include" and len(one.words) == 2 and file_text(Path(one.words[1])) is not None:
                lines[one.first] = f"include {config.line_of_word(root + os.path.abspath(one.words[1]))}\n"
                pending.append(Path(one.words[1]))
        texts[copy] = "".join(lines)
    return texts


def statements(path: Path, text_of: TextOf = file_text, within: tuple[Path, ...] = ()) -> Iterator[Statement]:
    """Yields the directives that slapd would see; those of an included file replace its `include` line."""
    text = text_of(path)
    if text is None or path in within:
        return
    for one in _own_statements(path, text):
        if one.keyword == "include" and len(one.words) == 2:
            yield from statements(Path(one.words[1]), text_of, (*within, path))
        else:
            yield one


def _own_statements(path: Path, text: str) -> Iterator[Statement]:
    """Joins lines with their continuations, which begin with white space or follow a backslash."""
    lines = [line.rstrip("\r\n") for line in _lines(text)]
    last = 0
    while last < len(lines):
        first, joined = last, lines[last]
        last += 1
        while last < len(lines) and not joined.lower().startswith("include"):
            if re.search(r"(?<!\\)\\$", joined):
                joined = joined[:-1] + lines[last]
            elif lines[last][:1].isspace():
                joined += " " + lines[last][1:]
            else:
                break
            last += 1
        words = () if joined.startswith("#") else tuple(config.words_of_line(joined))
        if words:
            yield Statement(path, first, last, words)


def sections(found: Sequence[Statement]) -> Iterator[list[Statement]]:
    """Yields the directives of each `database` or `backend`, except those after a proxy cache, which configure it."""

    def is_no_cache(one: Statement) -> bool:
        return one.keyword != "overlay" or one.words[1:2] not in (("pcache",), ("proxycache",))

    starts = [at for at, one in enumerate(found) if one.keyword in ("database", "backend")]
    for start, end in itertools.pairwise([*starts, len(found)]):
        yield list(itertools.takewhile(is_no_cache, found[start:end]))


def _lines(text: str) -> list[str]:
    """Splits a text into lines, newlines included. splitlines() would split at more than the newlines slapd knows."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


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


_PATHS = ("olcdbdirectory", "olcpidfile", "olcargsfile", "olcmodulepath", "olclogfile")
_NAMES = re.compile(r"\(\s*(\S+)\s+NAME\s+(?:'([^']*)'|\(([^)]*)\))")


def require_readable(entries: Sequence[Entry]) -> list[Entry]:
    """Returns `entries`, as a server shows them, with paths quoted: a server with a slapd.conf omits the quotes."""
    return [(name, _with_paths(attributes, config.value_of_single)) for name, attributes in entries]


def restored(converted: Sequence[Entry], found: Sequence[Statement]) -> list[Entry]:
    """Returns `converted`, the entries that slapcat made of the statements `found`, with what the conversion lost."""
    configured = _indexes(found, converted)
    entries = []
    for name, attributes in converted:
        mended = _with_paths(attributes, config.value_of_word)
        # Excludes the databases of an overlay: olcDatabase={1}ldap,olcOverlay={0}chain,...
        number = re.fullmatch(r"olcDatabase=\{(\d+)\}[^,]*,cn=config", name, re.IGNORECASE)
        if number and number[1] in configured:
            # An included file may be unreadable, so the text alone can lack indexes.
            shown = indexes.parse(value.decode() for value in attributes.get("olcDbIndex", ()))
            both = indexes.parse(map(str, (*shown.values(), *configured[number[1]])))
            mended |= {"olcDbIndex": [str(one).encode() for one in both.values()]} if both else {}
        if name == "cn=config" and any(one.keyword == "attributeoptions" for one in found):
            mended.setdefault("olcAttributeOptions", [b""])
        entries.append((name, mended))

    # The definitions in cn=config become a schema entry after the others. Macros stay: they depend on no definition.
    schemas = [at for at, (name, _) in enumerate(entries) if name.lower().endswith("," + ROOT)]
    own: dict[str, Sequence[bytes]] = {}
    for name, mended in entries if schemas else ():
        if name.lower() == "cn=config":
            own |= {key: mended.pop(key) for key in DEFINITIONS[1:] if key in mended}
    ordered: list[Entry] = list(entries)
    if own:
        name = f"{{{len(schemas)}}}slapd.conf"
        ordered.insert(
            schemas[-1] + 1, (f"cn={name},{ROOT}", {"objectClass": [b"olcSchemaConfig"], "cn": [name.encode()], **own})
        )
    return ordered


def _with_paths(attributes: Attributes, written: Callable[[str], str]) -> dict[str, Sequence[bytes]]:
    return {
        key: [os.fsencode(written(os.fsdecode(one))) for one in each] if key.lower() in _PATHS else each
        for key, each in attributes.items()
    }


def _indexes(found: Sequence[Statement], entries: Sequence[Entry]) -> dict[str, list[Index]]:
    """Returns number of an mdb database -> its indexes, with attributes as slapd writes them: the first name of the
    type, options sorted. slapd numbers all databases except frontend and config."""
    first: dict[str, str] = {}  # name or OID of an attribute type, in lower case -> its first name
    for _, attributes in entries:
        for value in attributes.get("olcAttributeTypes", ()):
            if match := _NAMES.search(value.decode(errors="replace")):
                names = [match[2]] if match[2] else re.findall(r"'([^']*)'", match[3] or "")
                first |= {alias.lower(): [*names, match[1]][0] for alias in (*names, match[1])}

    databases = [one for one in sections(found) if one[0].keyword == "database"]
    counted = [one for one in databases if one[0].value.lower() not in ("frontend", "config")]
    configured: dict[str, list[Index]] = {}
    for number, section in enumerate(counted, start=1):
        if section[0].value.lower() == "mdb":
            lines = (" ".join(map(config.value_of_word, one.words[1:])) for one in section if one.keyword == "index")
            written: dict[str, Index] = {}
            for index in indexes.parse(lines).values():
                name, *options = index.attribute.split(";")
                canonical = ";".join([first.get(name.lower(), name), *sorted(map(str.lower, options))])
                written[canonical.lower()] = Index(canonical, index.kinds)
            configured[str(number)] = list(written.values())
    return configured
