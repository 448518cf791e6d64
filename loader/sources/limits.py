"""Do the server's limits let the tree be read? Asked by --dry-run; a reading itself is told of them at once.

slapd tells a limit only by ending a search: nothing but a search finds it out. One without attributes shows a hundred
thousand entries in half a second, so a limit below that (the default is 500) is found; one above it is met while
reading, after that many entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loader.errors import LimitTooLow, ServerRefused
from loader.server.search import Search
from loader.server.session import Session
from loader.sources.ldap import page_sizes
from loader.sources.planner import Piece

LOOKED = 100_000  # entries


def require_readable(server: Session, base: str, partitions: Iterable[Piece], page: int) -> None:
    """Raises LimitTooLow where a partition cannot be read with `page`, nor with the smaller pages that a reading tries.

    Where the whole tree is shown, so is every part of it. What a server refuses for other reasons (OpenDJ wants a
    privilege for searches without an index) is left to the reading, which knows ways around.
    """
    try:
        server.require_shown(Search(base, page=page), LOOKED)
    except LimitTooLow:
        for one in partitions:
            _require_part(server, one.search, page)
    except ServerRefused:
        pass


def _require_part(server: Session, asked: Search, page: int) -> None:
    *others, last = page_sizes(page)
    for size in others:
        try:
            server.require_shown(replace(asked, page=size), LOOKED)
            return
        except LimitTooLow:
            continue
        except ServerRefused:
            return
    server.require_shown(replace(asked, page=last), LOOKED)
