"""What an installation of Debian's slapd package leaves in a new database: the entry of the suffix, and up to OpenLDAP
2.4 that of its administrator. Nothing to lose, but only the operator can say so.

slapd.scripts-common of the package writes them: `dc` and `o` of the domain, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from loader import dn
from loader.mdb import contents
from loader.progress import Meter
from loader.sources import location, mdb

Entry = Mapping[str, Set[bytes]]  # attribute in lower case -> values

MOST = 2  # entries
_OPERATIONAL = {
    *("structuralobjectclass", "entryuuid", "entrycsn", "creatorsname", "createtimestamp"),
    *("modifiersname", "modifytimestamp", "entrydn", "subschemasubentry", "hassubordinates"),
}
_SUFFIX = ({b"dcobject", b"organization"}, {"objectclass", "o", "dc"} | _OPERATIONAL)
_ADMIN = (
    {b"simplesecurityobject", b"organizationalrole"},
    {"objectclass", "cn", "description", "userpassword"} | _OPERATIONAL,
)


def is_all(entries: Sequence[tuple[str, Entry]]) -> bool:
    """Are these entries (DN and all attributes, operational ones too) what the package writes, as it wrote them?"""
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
    """The suffix of a database that holds nothing else; None for every other. Raises LoaderError."""
    if contents.entry_count(directory) > MOST:
        return None
    descriptor = os.memfd_create("entries", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "rb"):
        mdb.stream(mdb.Part(directory), descriptor, False, 1, Meter("look"))
        found = location.entries(Path(f"/dev/fd/{descriptor}"))
    return found[0][0] if is_all(found) else None


# --- empty suffix ----------------------------------------------------------------------------------------------------

# The root entry of a database whose suffix is the empty DN (`suffix ""`, as Zimbra has it), which bears the contextCSN.
# No search shows it: the root DSE answers a search with the base "". slapd adds it as a glue entry when it stores its
# first contextCSN (syncrepl.c, `syncrepl_add_glue`), and so must a seed.
GLUE = b"dn:\nobjectClass: glue\nstructuralObjectClass: glue\n\n"
FILE = "root.ldif"


def write(path: Path) -> Path:
    """The entry as an LDIF file, which is of no age: it changes no build."""
    path.write_bytes(GLUE)
    os.utime(path, (0, 0))
    return path


def completed(sources: Sequence[Path], first: Path, scratch: Path) -> tuple[Path, ...]:
    """`sources` with the root entry before them where they lack it. `first`: the file that is read first, at whose
    beginning slapcat writes the entry of the empty DN."""
    if [name for name, _ in location.entries(first, most=1)] == [""]:
        return tuple(sources)
    return (write(scratch / FILE), *sources)
