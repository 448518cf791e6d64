"""Does a configuration know what an LDIF uses? slapadd is asked, with one probe record for each name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from loader import child, dn
from loader.errors import NoSuchSuffix, SchemaMissing
from loader.operations.publish import TargetDatabase
from loader.server import tools

FirstUse = Mapping[str, tuple[str, int]]  # name -> file and line where it is used first
_SHOWN = 10
_UNKNOWN = re.compile(r"str2ad\(([^)]+)\): attribute type undefined|unrecognized objectClass '([^']+)'", re.IGNORECASE)


def require_suffix(place: TargetDatabase, first_dn: str) -> None:
    """The entries must belong to the database."""
    if not any(dn.is_below(first_dn, suffix) for suffix in place.database.suffixes):
        known = ", ".join(place.database.suffixes)
        raise NoSuchSuffix(config=place.config.path, suffix=f"of {first_dn}", known=known)


def require_known(place: TargetDatabase, attributes: FirstUse, object_classes: FirstUse, scratch: Path) -> None:
    """Raise SchemaMissing naming every attribute and class that the configuration lacks, with its first use."""
    unknown = unknown_names(place, list(attributes), list(object_classes), scratch)
    if not unknown:
        return
    uses = {**object_classes, **attributes}
    named = [f"{name} ({uses[name][0]}, line {uses[name][1]})" for name in unknown[:_SHOWN]]
    more = [f"and {len(unknown) - _SHOWN} more"] if len(unknown) > _SHOWN else []
    raise SchemaMissing(config=place.config.path, names=", ".join([*named, *more]))


def unknown_names(
    place: TargetDatabase, attributes: Sequence[str], object_classes: Sequence[str], scratch: Path
) -> list[str]:
    """Names that slapadd does not know. `-u -c`: nothing is written, and it goes on after each complaint."""
    probes = b"".join(_probes(place.database.suffix, attributes, object_classes))
    with place.private_configuration(scratch) as copy:
        command = tools.server_tool("slapadd", "-u", "-c", "-F", str(copy), "-b", place.database.suffix)
        answer = child.ask(command, stdin=probes)
    complained = {(one or other).lower() for one, other in _UNKNOWN.findall("\n".join(answer.words))}
    # The value of a probe can look like a name too ("x" where a DN is wanted): only what was asked counts.
    return [name for name in (*attributes, *object_classes) if name.lower() in complained]


def _probes(suffix: str, attributes: Iterable[str], object_classes: Iterable[str]) -> Iterator[bytes]:
    """Records that fail in many ways, but complain of a name only when it is not known."""
    for name in attributes:
        yield f"dn: {suffix}\nobjectClass: top\n{name}: x\n\n".encode()
    for name in object_classes:
        yield f"dn: {suffix}\nobjectClass: {name}\n\n".encode()
