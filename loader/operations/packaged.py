"""Recognizes the entries that the installation of Debian's slapd package creates (see its slapd.scripts-common): the
suffix entry with `dc` and `o` and, up to OpenLDAP 2.4, an administrator. A database with only these entries is replaced
only if the operator says so. This module also writes the root entry of a database with an empty suffix."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from loader import dn
from loader.mdb import contents
from loader.progress import Meter
from loader.sources import location, mdb

Entry = Mapping[str, Set[bytes]]  # attribute in lower case -> values

MOST = 2  # maximum number of entries that the package creates
_OPERATIONAL = {
    *("structuralobjectclass", "entryuuid", "entrycsn", "creatorsname", "createtimestamp"),
    *("modifiersname", "modifytimestamp", "entrydn", "subschemasubentry", "hassubordinates"),
}
_SUFFIX = ({b"dcobject", b"organization"}, {"objectclass", "o", "dc"} | _OPERATIONAL)
_ADMIN = (
    {b"simplesecurityobject", b"organizationalrole"},
    {"objectclass", "cn", "description", "userpassword"} | _OPERATIONAL,
)


def is_unchanged(entries: Sequence[tuple[str, Entry]]) -> bool:
    """Returns whether `entries` are those of the package, unchanged. They must include their operational attributes."""
    if not 1 <= len(entries) <= MOST:
        return False
    expected = ((entries[0][0], *_SUFFIX), (f"cn=admin,{entries[0][0]}", *_ADMIN))
    return all(
        dn.key(name) == dn.key(of_package)
        and {value.lower() for value in entry.get("objectclass", ())} - {b"top"} == classes
        and entry.keys() <= attributes
        and entry.get("createtimestamp") == entry.get("modifytimestamp")
        for (name, entry), (of_package, classes, attributes) in zip(entries, expected, strict=False)
    )


def suffix_in(directory: Path) -> str | None:
    """Returns the suffix of a database that has only unchanged entries of Debian's slapd package, else None.
    Raises LoaderError."""
    if contents.entry_count(directory) > MOST:
        return None
    descriptor = os.memfd_create("entries", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "rb"):
        mdb.stream(mdb.Part(directory), descriptor, 1, Meter("look"))
        entries = location.entries(Path(f"/dev/fd/{descriptor}"))
    return entries[0][0] if is_unchanged(entries) else None


# The root entry of a database whose suffix is the empty DN (`suffix ""`, as in Zimbra), which stores the contextCSN. No
# search returns the root entry, because a search with the base "" returns the root DSE. slapd adds it as glue when it
# first stores a contextCSN (syncrepl.c, `syncrepl_add_glue`). So a seeding must add it, too.
GLUE = b"dn:\nobjectClass: glue\nstructuralObjectClass: glue\n\n"
FILE = "root.ldif"


def write_root_entry(path: Path) -> Path:
    """Writes the root entry as LDIF. Its mtime is 0, because a build is dated by the newest mtime of its inputs."""
    path.write_bytes(GLUE)
    os.utime(path, (0, 0))
    return path


def with_root_entry(sources: Sequence[Path], first: Path, scratch: Path) -> tuple[Path, ...]:
    """Returns `sources`. If the source that is read first, `first`, does not begin with the root entry (slapcat's
    output does), a new file with the root entry precedes them."""
    if [name for name, _ in location.entries(first, most=1)] == [""]:
        return tuple(sources)
    return (write_root_entry(scratch / FILE), *sources)
