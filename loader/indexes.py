"""Parses, compares and changes lists of indexes in the syntax of slapd ("cn,sn eq,sub"; words may be quoted)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from loader import config
from loader.errors import UsageProblem

# slapd 2.7 ignores all indexes of objectClass except the first; up to 2.6 it refuses a second one (back-mdb/attr.c).
_FIRST_COUNTS = "objectclass"
DEFAULT = "default"  # in place of an attribute: its kinds apply to attributes without kinds
SYNC = ("entryCSN", "entryUUID")  # syncprov searches by these attributes, so each needs eq (slapo-syncprov(5))

# Kinds with two spellings (slapd/index.c).
_SAME_KIND = {"substr": "sub", "nolang": "notags"}
_WHOLE_SUB = frozenset({"subinitial", "subany", "subfinal"})


class Index(Struct, frozen=True):
    """The index of one attribute. `kinds`: in the order of the configuration."""

    attribute: str
    kinds: tuple[str, ...]

    @property
    def key(self) -> str:
        return self.attribute.lower()

    @property
    def meaning(self) -> tuple[str, frozenset[str]]:
        """A value that is the same for equal indexes with different spellings."""
        kinds = frozenset(_SAME_KIND.get(kind.lower(), kind.lower()) for kind in self.kinds)
        return self.key, kinds - _WHOLE_SUB | {"sub"} if kinds >= _WHOLE_SUB else kinds

    def __str__(self) -> str:
        return f"{self.attribute} {','.join(self.kinds)}".strip()


Indexes = dict[str, Index]  # attribute in lower case -> index, in the order of the configuration


def parse(lines: Iterable[str], present: Indexes | None = None) -> Indexes:
    """Returns the indexes in lines like "cn,sn eq,sub". An attribute in two lines gets the kinds of both, but only the
    first line of objectClass counts. A line without kinds gets the kinds of `default`, from an earlier line or from
    `present`. Raises UsageProblem for other lines, and for a line without kinds if there is no `default`."""
    parsed: Indexes = {}
    for line in lines:
        if not line.strip():
            continue
        names, kinds = _split(line)
        default = {**(present or {}), **parsed}.get(DEFAULT)
        if not kinds and default is None:
            raise UsageProblem(reason=f"no kind of index on {names[0]}: write {line.strip()} eq, or eq,sub")
        for name in names:
            index = Index(name, kinds or default.kinds if default else kinds)
            if index.key != _FIRST_COUNTS or index.key not in parsed:
                parsed[index.key] = _merged(parsed.get(index.key), index)
    return parsed


def configured(lines: Iterable[str]) -> Indexes:
    """Like `parse`, but omits `default`, because the attributes already have its kinds. Raises UsageProblem."""
    return {key: index for key, index in parse(lines).items() if key != DEFAULT}


def _split(line: str) -> tuple[list[str], tuple[str, ...]]:
    words = config.words_of_value(line)
    if len(words) > 2:
        raise UsageProblem(reason=f'not an index: {line!r} (write "uid eq" or "cn,sn eq,sub", no space after a comma)')
    names = [name for name in words[0].split(",") if name]
    if not names:
        raise UsageProblem(reason=f"not an index: {line!r} names no attribute")
    return names, tuple(kind for kind in "".join(words[1:]).split(",") if kind)


def _merged(first: Index | None, second: Index) -> Index:
    if first is None:
        return second
    return Index(first.attribute, tuple(dict.fromkeys((*first.kinds, *second.kinds))))


def added(present: Indexes, lines: Iterable[str]) -> Indexes:
    """Returns `present` with the indexes of `lines` added."""
    more = parse(lines, present)
    return {**present, **{key: _merged(present.get(key), index) for key, index in more.items()}}


def removed(present: Indexes, lines: Iterable[str]) -> Indexes:
    """Returns `present` without the indexes in `lines`. A line without kinds removes all kinds of its attributes."""
    remaining = dict(present)
    for names, kinds in map(_split, filter(str.strip, lines)):
        for name in map(str.lower, names):
            index = remaining.get(name)
            other_kinds = [kind for kind in index.kinds if kind not in kinds] if index and kinds else []
            if index and other_kinds:
                remaining[name] = Index(index.attribute, tuple(other_kinds))
            else:
                remaining.pop(name, None)
    return remaining


def missing(present: Indexes, lines: Iterable[str]) -> list[str]:
    """Returns the attributes ("mail") and kinds ("mail sub") that `lines` has and `present` lacks."""
    absent = []
    for names, kinds in map(_split, filter(str.strip, lines)):
        for name in names:
            index = present.get(name.lower())
            if index is None:
                absent.append(name)
            else:
                absent += [f"{name} {kind}" for kind in kinds if kind not in index.kinds]
    return absent


def same(first: Indexes, second: Indexes) -> bool:
    return {index.meaning for index in first.values()} == {index.meaning for index in second.values()}


def attributes_to_reindex(before: Indexes, after: Indexes) -> list[str]:
    """Returns the attributes that gained kinds, for which slapindex must run."""
    return [
        index.attribute
        for key, index in after.items()
        if key != DEFAULT and index.meaning[1] - (before[key].meaning[1] if key in before else set())
    ]


def with_stale_keys(before: Indexes, after: Indexes, rebuilt: Sequence[str]) -> list[str]:
    """Returns the attributes that lose a kind and are not in `rebuilt`, so that their tables keep keys of that kind."""
    lose = attributes_to_reindex(after, before)
    return [name for name in lose if name.lower() in after and name not in rebuilt]


def rewritten_lines(lines: Sequence[str], after: Indexes) -> tuple[str, ...]:
    """Returns configuration lines for the indexes in `after`. Keeps as many of the present `lines` as possible."""
    present = parse(lines)
    remaining = kept(present, after)
    meanings = {index.meaning for index in remaining.values()}
    old = [remaining_line(line, present, remaining) for line in lines]
    new = [str(index) for index in after.values() if index.meaning not in meanings]
    return (*(line for line in old if line), *new)


def kept(present: Indexes, after: Indexes) -> Indexes:
    """Returns the indexes of `present` that `after` has with the same kinds."""
    meanings = {index.meaning for index in after.values()}
    return {key: index for key, index in present.items() if index.meaning in meanings}


def remaining_line(line: str, present: Indexes, remaining: Indexes) -> str:
    """Returns a line of `present`, reduced to its indexes in `remaining`; "" if it has none of them."""
    indexes = parse([line], present)
    stay = [index for key, index in indexes.items() if key in remaining]
    loses_default = len(config.words_of_value(line)) == 1 and DEFAULT not in remaining
    if len(stay) == len(indexes) and not loses_default:
        return line
    return f"{','.join(index.attribute for index in stay)} {','.join(stay[0].kinds)}" if stay else ""


def lacking_for_sync(present: Indexes) -> list[str]:
    """Returns the indexes that replication needs and `present` lacks, such as "entryCSN eq"."""
    return [
        f"{name} eq" for name in SYNC if name.lower() not in present or "eq" not in present[name.lower()].meaning[1]
    ]
