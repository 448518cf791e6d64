"""Index lists as slapd has them ("cn,sn eq,sub"; words may be quoted): read, compared, joined, taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loader import values
from loader.errors import UsageProblem

# slapd 2.7 ignores every index of objectClass but the first, and up to 2.6 refuses a second one (back-mdb/attr.c).
_FIRST_HOLDS = "objectclass"
DEFAULT = "default"  # not an attribute: the kinds of those that name none
SYNC = ("entryCSN", "entryUUID")  # eq on both: what syncprov searches by (slapo-syncprov(5))

# slapd/index.c: several spellings of one kind.
_SAME_KIND = {"substr": "sub", "nolang": "notags"}
_WHOLE_SUB = frozenset({"subinitial", "subany", "subfinal"})


@dataclass(frozen=True)
class Index:
    """One attribute and how it is indexed, kinds in the order they were written."""

    attribute: str
    kinds: tuple[str, ...]

    @property
    def key(self) -> str:
        return self.attribute.lower()

    @property
    def meaning(self) -> tuple[str, frozenset[str]]:
        """Equal for equal indexes, however they are spelt."""
        kinds = frozenset(_SAME_KIND.get(kind.lower(), kind.lower()) for kind in self.kinds)
        return self.key, kinds - _WHOLE_SUB | {"sub"} if kinds >= _WHOLE_SUB else kinds

    def __str__(self) -> str:
        return f"{self.attribute} {','.join(self.kinds)}".strip()


Indexes = dict[str, Index]  # by attribute in lower case, in order


def parse(lines: Iterable[str], present: Indexes | None = None) -> Indexes:
    """Of lines like "cn,sn eq,sub". An attribute named twice gets the kinds of both, unless it is objectClass.

    Kinds left out are those of `default`, here or among the `present` ones. Raises UsageProblem.
    """
    found: Indexes = {}
    for line in lines:
        if not line.strip():
            continue
        names, kinds = _split(line)
        default = {**(present or {}), **found}.get(DEFAULT)
        if not kinds and default is None:
            raise UsageProblem(reason=f"which index on {names[0]}? write {line.strip()} eq, or eq,sub")
        for name in names:
            index = Index(name, kinds or default.kinds if default else kinds)
            if index.key != _FIRST_HOLDS or index.key not in found:
                found[index.key] = _joined(found.get(index.key), index)
    return found


def configured(lines: Iterable[str]) -> Indexes:
    """Those of attributes: what `default` says is in them already. Raises UsageProblem."""
    return {key: index for key, index in parse(lines).items() if key != DEFAULT}


def _split(line: str) -> tuple[list[str], tuple[str, ...]]:
    said = values.of_value(line)
    if len(said) > 2:
        raise UsageProblem(reason=f'not an index: {line!r} (write "uid eq" or "cn,sn eq,sub", no space after a comma)')
    names = [name for name in said[0].split(",") if name]
    if not names:
        raise UsageProblem(reason=f"not an index: {line!r} names no attribute")
    return names, tuple(kind for kind in "".join(said[1:]).split(",") if kind)


def _joined(one: Index | None, other: Index) -> Index:
    if one is None:
        return other
    return Index(one.attribute, tuple(dict.fromkeys((*one.kinds, *other.kinds))))


def added(present: Indexes, lines: Iterable[str]) -> Indexes:
    """`present` and what `lines` ask for besides."""
    more = parse(lines, present)
    return {**present, **{key: _joined(present.get(key), index) for key, index in more.items()}}


def removed(present: Indexes, lines: Iterable[str]) -> Indexes:
    """`present` without the attributes of `lines`, or without the kinds they name; what is not there is no error."""
    left = dict(present)
    for names, kinds in map(_split, filter(str.strip, lines)):
        for name in map(str.lower, names):
            found = left.get(name)
            kept = [kind for kind in found.kinds if kind not in kinds] if found and kinds else []
            if found and kept:
                left[name] = Index(found.attribute, tuple(kept))
            else:
                left.pop(name, None)
    return left


def not_there(present: Indexes, lines: Iterable[str]) -> list[str]:
    """What `removed` finds nothing of: attributes, or kinds of them ("mail subany" of "mail sub")."""
    missing = []
    for names, kinds in map(_split, filter(str.strip, lines)):
        for name in names:
            found = present.get(name.lower())
            if found is None:
                missing.append(name)
            else:
                missing += [f"{name} {kind}" for kind in kinds if kind not in found.kinds]
    return missing


def same(one: Indexes, other: Indexes) -> bool:
    return {index.meaning for index in one.values()} == {index.meaning for index in other.values()}


def attributes_to_reindex(before: Indexes, after: Indexes) -> list[str]:
    """Attributes with kinds they did not have: what slapindex must do."""
    return [
        index.attribute
        for key, index in after.items()
        if key != DEFAULT and index.meaning[1] - (before[key].meaning[1] if key in before else set())
    ]


def left_behind(before: Indexes, after: Indexes, made_anew: Sequence[str]) -> list[str]:
    """Attributes that are still indexed, and lose kinds whose keys nobody takes out of their tables."""
    lose = attributes_to_reindex(after, before)
    return [name for name in lose if name.lower() in after and name not in made_anew]


def rewritten_lines(lines: Sequence[str], wanted: Indexes) -> tuple[str, ...]:
    """`lines` made to say `wanted`, with as few lines changed as can be."""
    present = parse(lines)
    left = kept(present, wanted)
    said = {index.meaning for index in left.values()}
    old = [remaining_line(line, present, left) for line in lines]
    new = [str(index) for index in wanted.values() if index.meaning not in said]
    return (*(line for line in old if line), *new)


def kept(present: Indexes, wanted: Indexes) -> Indexes:
    """Those of `present` that `wanted` has just so."""
    meanings = {index.meaning for index in wanted.values()}
    return {key: index for key, index in present.items() if index.meaning in meanings}


def remaining_line(line: str, present: Indexes, left: Indexes) -> str:
    """What one of the lines that make `present` still says when only `left` is left; "" when nothing."""
    here = parse([line], present)
    stay = [index for key, index in here.items() if key in left]
    leans = len(values.of_value(line)) == 1 and DEFAULT not in left  # on a default that goes
    if len(stay) == len(here) and not leans:
        return line
    return f"{','.join(one.attribute for one in stay)} {','.join(stay[0].kinds)}" if stay else ""


def lacking_for_sync(present: Indexes) -> list[str]:
    """Which of the indexes that replication needs are not there: "entryCSN eq"."""
    return [
        f"{name} eq" for name in SYNC if name.lower() not in present or "eq" not in present[name.lower()].meaning[1]
    ]
