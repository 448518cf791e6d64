"""What a data.mdb says of itself while it passes by as a stream: for copies that never lie on a disk as they are."""

from __future__ import annotations

from loader.mdb import meta


class Passing:
    """Feed it the whole stream in order, in pieces of which the first is HEAD_BYTES long or all there is."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._page = bytearray()  # the root of the table of tables
        self.size = 0
        self.facts: meta.MetaPage | None = None

    def feed(self, piece: bytes) -> None:
        if self.facts is None:
            self.facts = meta.parse(piece[: meta.HEAD_BYTES], self._origin)
        if self.facts.main.root is not None:
            start = self.facts.main.root * self.facts.page_size - self.size
            self._page += piece[max(0, start) : max(0, start + self.facts.page_size)]
        self.size += len(piece)

    def entries(self) -> int | None:
        """Entries in what has passed; None where the list of tables takes more than a page (over 50 indexes)."""
        if self.facts is None or len(self._page) != self.facts.page_size:
            return None
        tables = meta.tables_on(bytes(self._page), self.facts)
        return tables["id2e"].entries if tables and "id2e" in tables else None
