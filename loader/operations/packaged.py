"""What an installation of Debian's slapd package leaves in a new database: the entry of the suffix, and up to OpenLDAP
2.4 that of its administrator. Nothing to lose, but only the operator can say so.

slapd.scripts-common of the package writes them: `dc` and `o` of the domain, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from loader import dn
from loader.mdb import contents
from loader.progress import Meter
from loader.sources import mdb, records

Entry = Mapping[str, Set[bytes]]  # attribute in lower case -> values

MOST = 2
_SUFFIX = (
    {b"top", b"dcobject", b"organization"},
    {"objectclass", "o", "dc"},
)
_ADMIN = (
    {b"simplesecurityobject", b"organizationalrole"},
    {"objectclass", "cn", "description", "userpassword"},
)
_OPERATIONAL = {
    *("structuralobjectclass", "entryuuid", "entrycsn", "creatorsname", "createtimestamp"),
    *("modifiersname", "modifytimestamp", "entrydn", "subschemasubentry", "hassubordinates"),
}


def is_all(found: Sequence[tuple[str, Entry]]) -> bool:
    """Are these entries (DN and all attributes, operational ones too) what the package writes, as it wrote them?"""
    if not 1 <= len(found) <= MOST:
        return False
    (suffix, top), *others = found
    admins = all(
        dn.key(name) == dn.key(f"cn=admin,{suffix}") and _is(entry, *_ADMIN)
        for name, entry in others
    )
    return admins and _is(top, *_SUFFIX)


def _is(entry: Entry, classes: set[bytes], attributes: set[str]) -> bool:
    """No other class and attribute, and unchanged since it was made."""
    has = {value.lower() for value in entry.get("objectclass", ())}
    return (
        has - {b"top"} == classes - {b"top"}
        and entry.keys() <= attributes | _OPERATIONAL
        and entry.get("createtimestamp") == entry.get("modifytimestamp")
    )


def suffix_in(directory: Path) -> str | None:
    """The suffix of a database that holds nothing else; None for every other. Raises LoaderError."""
    if contents.entry_count(directory) > MOST:
        return None
    descriptor = os.memfd_create("entries", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "rb"):
        mdb.stream(mdb.Part(directory), descriptor, False, 1, Meter("look"))
        found = records.entries(Path(f"/dev/fd/{descriptor}"))
    return found[0][0] if is_all(found) else None
