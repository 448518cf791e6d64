"""Recognizes the entries that the installation of Debian's slapd package creates: the suffix entry and, up to OpenLDAP
2.4, an administrator. slapd.scripts-common of the package gives the suffix entry only `dc` and `o`. Only the operator
can decide to replace these entries. The module also writes the root entry of a database with an empty suffix."""

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
    """Returns whether `entries` are those of the package, unchanged. Their operational attributes must be included."""
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
    """Returns the suffix if the database has only the entries that the Debian package of slapd creates. Returns None
    otherwise. Raises LoaderError."""
    if contents.entry_count(directory) > MOST:
        return None
    descriptor = os.memfd_create("entries", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "rb"):
        mdb.stream(mdb.Part(directory), descriptor, 1, Meter("look"))
        entries = location.entries(Path(f"/dev/fd/{descriptor}"))
    return entries[0][0] if is_unchanged(entries) else None


# --- empty suffix ----------------------------------------------------------------------------------------------------

# The root entry of a database whose suffix is the empty DN (`suffix ""`, as in Zimbra). This entry stores the
# contextCSN. No search returns it, because a search with the base "" returns the root DSE. slapd adds the entry as glue
# when it first stores a contextCSN (syncrepl.c, `syncrepl_add_glue`). The seeding of a replica must do the same.
GLUE = b"dn:\nobjectClass: glue\nstructuralObjectClass: glue\n\n"
FILE = "root.ldif"


def write_root_entry(path: Path) -> Path:
    """Writes the root entry as LDIF with mtime 0, so that the file does not change the time of a build."""
    path.write_bytes(GLUE)
    os.utime(path, (0, 0))
    return path


def with_root_entry(sources: Sequence[Path], first: Path, scratch: Path) -> tuple[Path, ...]:
    """Returns `sources`, preceded by a file with the root entry if `first`, the source that is read first, lacks this
    entry. A file that slapcat wrote begins with the root entry."""
    if [name for name, _ in location.entries(first, most=1)] == [""]:
        return tuple(sources)
    return (write_root_entry(scratch / FILE), *sources)
