"""Compares the databases of two servers by slapcat's output, without any code of ditseed."""

from __future__ import annotations

from collections.abc import Iterator

from fixtures.slapd import Slapd

Tree = dict[str, tuple[str, ...]]


def tree(slapcat: str) -> Tree:
    """Returns DN line -> sorted lines of the entry, without contextCSN, which is the server's."""
    entries: Tree = {}
    for text in filter(str.strip, slapcat.split("\n\n")):
        dn, *lines = text.strip("\n").split("\n")
        entries[dn] = tuple(sorted(line for line in lines if not line.startswith("contextCSN:")))
    return entries


def differences(left: Tree, right: Tree) -> Iterator[str]:
    for dn in sorted(left.keys() | right.keys()):
        if dn not in right:
            yield f"only left: {dn}"
        elif dn not in left:
            yield f"only right: {dn}"
        elif left[dn] != right[dn]:
            yield f"{dn}: {sorted(set(left[dn]) ^ set(right[dn]))}"


def assert_same(left: Slapd, right: Slapd) -> None:
    """Asserts that all entries and attributes are equal, including entryUUID and entryCSN."""
    one, other = tree(left.slapcat()), tree(right.slapcat())
    assert one, "an empty database proves nothing"
    found = list(differences(one, other))
    assert not found, f"{len(found)} entries differ:\n" + "\n".join(found[:10])


def emptied(server: Slapd) -> None:
    """Replaces the database of a running server by an empty one; the URI stays the same."""
    server.stop()
    for path in server.database_dir.glob("*.mdb"):
        path.unlink()
    server.start()
