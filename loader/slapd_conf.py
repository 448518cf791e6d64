"""Reads the text of a slapd.conf, and finds the lines that an operator must change for a new setting. Joins lines and
splits lines into words as slapd does (servers/slapd/config.c, fp_getline and strtok_quote)."""

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

TextOf = Callable[[Path], str | None]  # returns the text of a file; None if the file cannot be read

# Settings of back-mdb that ditseed changes.
KEYWORDS = {
    "olcDbMaxSize": "maxsize",
    "olcDbIndex": "index",
    "olcDbNoSync": "dbnosync",
    "olcDbEnvFlags": "envflags",
    "olcDbCheckpoint": "checkpoint",
}


class Statement(Struct, frozen=True):
    """One directive, in the lines `first` to `last` - 1 of `file`, counted from 0."""

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
    """Returns the text of a slapd.conf or an included file; None if the file cannot be read. Bytes that are not UTF-8,
    as in an old comment, become surrogate escapes. Raises FileUnsafe if another account may have replaced the file."""
    try:
        return files.read(path).decode("utf-8", "surrogateescape")
    except OSError:
        return None


def lines_to_change(main: Path, suffix: str, changes: Sequence[Change], text_of: TextOf = file_text) -> list[str]:
    """Returns instructions for the operator: for each place, its file and line number, then the lines to write."""
    directives = list(statements(main, text_of))
    for block in sections(directives):
        names = [name for directive in block if directive.keyword == "suffix" for name in directive.words[1:]]
        if any(dn.key(name) == dn.key(suffix) for name in names):
            return [line for change in changes for line in _to_change(directives, block, suffix, change)]
    # The database is in a file that cannot be read.
    lines = (f"{KEYWORDS[change.attribute]} {text}" for change in changes for text in change.after)
    return [f"{main}, in the section of the database {suffix}:", *lines]


def _to_change(every: Sequence[Statement], block: Sequence[Statement], suffix: str, change: Change) -> Iterator[str]:
    def where(changed: Statement) -> str:
        last = f" to {changed.last}" if changed.last > changed.first + 1 else ""
        readings = [other for other in every if (other.file, other.first) == (changed.file, changed.first)]
        shared = " (included more than once: the change counts for each)" if readings[1:] else ""
        return f"{changed.file}, line {changed.first + 1}{last}{shared}"

    keyword = KEYWORDS[change.attribute]
    old = [directive for directive in block if directive.keyword == keyword]
    texts, new = list[str | None]([None] * len(old)), list(change.after)  # None: remove the line
    if keyword == "index":
        # Removes only indexes that `change` drops, because the file may have indexes that slapd does not show.
        before, after = indexes.parse(change.before), indexes.parse(change.after)
        removed = before.keys() - indexes.kept(before, after).keys()
        added = after.keys() - indexes.kept(after, before).keys()
        present = indexes.parse(line.value for line in old)
        remaining = {key: index for key, index in present.items() if key not in removed}
        texts = [indexes.remaining_line(line.value, present, remaining) or None for line in old]
        new = [str(index) for key, index in after.items() if key in added]
    for directive, text in zip(old, texts, strict=True):
        if text != directive.value:
            lines = [] if text is None else [text]
            if directive is old[-1]:
                lines, new = [*lines, *new], []
            action = "in place of" if lines else "remove"
            yield f"{where(directive)}, {action} `{' '.join(directive.words)}`{':' if lines else ''}"
            yield from (f"{keyword} {line}" for line in lines)
    if new:
        directory = next((directive for directive in block if directive.keyword == "directory"), block[0])
        previous = old[-1] if old else directory
        yield f"{where(previous)}, add after `{' '.join(previous.words)}` of the database {suffix}:"
        yield from (f"{keyword} {line}" for line in new)


def copies(main: Path, root: str, keyword: str) -> dict[Path, str]:
    """Returns copies of a slapd.conf and its included files without `keyword`, as paths below `root` -> texts."""
    texts: dict[Path, str] = {}
    pending = [main]
    while pending:
        path = pending.pop()
        copy, text = Path(root + os.path.abspath(path)), file_text(path)
        if text is None or copy in texts:
            continue
        lines = _lines(text)
        for each in reversed(list(_own_statements(path, text))):
            if each.keyword == keyword:
                lines[each.first : each.last] = ["\n"] * (each.last - each.first)
            elif each.keyword == "include" and len(each.words) == 2 and file_text(Path(each.words[1])) is not None:
                lines[each.first] = f"include {config.line_of_word(root + os.path.abspath(each.words[1]))}\n"
                pending.append(Path(each.words[1]))
        texts[copy] = "".join(lines)
    return texts


def statements(path: Path, text_of: TextOf = file_text, within: tuple[Path, ...] = ()) -> Iterator[Statement]:
    """Yields the directives in the order of slapd: in place of an `include`, those of the included file."""
    text = text_of(path)
    if text is None or path in within:
        return
    for directive in _own_statements(path, text):
        if directive.keyword == "include" and len(directive.words) == 2:
            yield from statements(Path(directive.words[1]), text_of, (*within, path))
        else:
            yield directive


def _own_statements(path: Path, text: str) -> Iterator[Statement]:
    """Yields the directives of a file. A line that begins with white space or follows a backslash is a continuation."""
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


def sections(directives: Sequence[Statement]) -> Iterator[list[Statement]]:
    """Yields each section (`database` or `backend`) without directives that belong to its overlay pcache."""

    def is_no_cache(directive: Statement) -> bool:
        return directive.keyword != "overlay" or directive.words[1:2] not in (("pcache",), ("proxycache",))

    starts = [at for at, directive in enumerate(directives) if directive.keyword in ("database", "backend")]
    for start, end in itertools.pairwise([*starts, len(directives)]):
        yield list(itertools.takewhile(is_no_cache, directives[start:end]))


def _lines(text: str) -> list[str]:
    """Splits a text into lines with their newlines. splitlines() would also split at characters that slapd ignores."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


# --- conversion ------------------------------------------------------------------------------------------------------
#
# When slapd converts a slapd.conf to cn=config, some directives are lost or changed. slapd -f and slapadd -f use the
# text, but slapcat prints the conversion. This section restores these directives from the text:
#
# - If an index has two of the kinds subinitial, subany and subfinal, the conversion has one of them, or all three
#   (index.c, slap_index2bv).
# - `attributeoptions` without an option, which removes "lang-", is missing (ad.c, ad_unparse_options).
# - The definitions in the slapd.conf itself come first, even if they depend on definitions in included files.
# - A path with spaces has no quotes (config.c, config_get_vals), so that slapd could not read its own conversion.

_PATHS = ("olcdbdirectory", "olcpidfile", "olcargsfile", "olcmodulepath", "olclogfile")
_NAMES = re.compile(r"\(\s*(\S+)\s+NAME\s+(?:'([^']*)'|\(([^)]*)\))")


def require_readable(entries: Sequence[Entry]) -> list[Entry]:
    """Returns the `entries` of a server, with quotes around paths. A server with a slapd.conf omits these quotes."""
    return [(name, _with_paths(attributes, config.value_of_single)) for name, attributes in entries]


def restored(converted: Sequence[Entry], directives: Sequence[Statement]) -> list[Entry]:
    """Returns `converted`, the entries that slapcat prints for the directives, with the lost directives restored."""
    configured = _indexes(directives, converted)
    entries = []
    for name, attributes in converted:
        new_attributes = _with_paths(attributes, config.value_of_word)
        # The pattern does not match the database of an overlay: olcDatabase={1}ldap,olcOverlay={0}chain,...
        number = re.fullmatch(r"olcDatabase=\{(\d+)\}[^,]*,cn=config", name, re.IGNORECASE)
        if number and number[1] in configured:
            # slapcat's indexes are used, too, because the text lacks the indexes in an unreadable included file.
            printed = indexes.parse(value.decode() for value in attributes.get("olcDbIndex", ()))
            both = indexes.parse(map(str, (*printed.values(), *configured[number[1]])))
            new_attributes |= {"olcDbIndex": [str(index).encode() for index in both.values()]} if both else {}
        if name == "cn=config" and any(each.keyword == "attributeoptions" for each in directives):
            new_attributes.setdefault("olcAttributeOptions", [b""])
        entries.append((name, new_attributes))

    # Moves the definitions in cn=config to a new entry after the schema entries. Macros stay: they use no definition.
    schemas = [at for at, (name, _) in enumerate(entries) if name.lower().endswith("," + ROOT)]
    definitions: dict[str, Sequence[bytes]] = {}
    for name, new_attributes in entries if schemas else ():
        if name.lower() == "cn=config":
            definitions |= {key: new_attributes.pop(key) for key in DEFINITIONS[1:] if key in new_attributes}
    if definitions:
        name = f"{{{len(schemas)}}}slapd.conf"
        definitions |= {"objectClass": [b"olcSchemaConfig"], "cn": [name.encode()]}
        entries.insert(schemas[-1] + 1, (f"cn={name},{ROOT}", definitions))
    return [*entries]


def _with_paths(attributes: Attributes, quoted: Callable[[str], str]) -> dict[str, Sequence[bytes]]:
    return {
        key: [os.fsencode(quoted(os.fsdecode(value))) for value in values] if key.lower() in _PATHS else values
        for key, values in attributes.items()
    }


def _indexes(directives: Sequence[Statement], entries: Sequence[Entry]) -> dict[str, list[Index]]:
    """Returns the indexes of each mdb database, by its number. slapd numbers all databases except frontend and config.
    Spells attributes as slapd does: with the first name of the type, and with sorted options."""
    first: dict[str, str] = {}  # name or OID of an attribute type, in lower case -> its first name
    for _, attributes in entries:
        for value in attributes.get("olcAttributeTypes", ()):
            if match := _NAMES.search(value.decode(errors="replace")):
                names = [match[2]] if match[2] else re.findall(r"'([^']*)'", match[3] or "")
                first |= {alias.lower(): [*names, match[1]][0] for alias in (*names, match[1])}

    databases = [section for section in sections(directives) if section[0].keyword == "database"]
    counted = [section for section in databases if section[0].value.lower() not in ("frontend", "config")]
    configured: dict[str, list[Index]] = {}
    for number, section in enumerate(counted, start=1):
        if section[0].value.lower() == "mdb":
            lines = [each for each in section if each.keyword == "index"]
            values = (" ".join(map(config.value_of_word, line.words[1:])) for line in lines)
            written: dict[str, Index] = {}
            for index in indexes.parse(values).values():
                name, *options = index.attribute.split(";")
                canonical = ";".join([first.get(name.lower(), name), *sorted(map(str.lower, options))])
                written[canonical.lower()] = Index(canonical, index.kinds)
            configured[str(number)] = list(written.values())
    return configured
