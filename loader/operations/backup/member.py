"""One database of a run, from its snapshot to its backup in the repository."""

from __future__ import annotations

import hashlib
import platform
import socket
import sys
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from loader.mdb import meta
from loader.mdb.pages import PageStream, paged
from loader.mdb.snapshot import CopyableSnapshot
from loader.operations.backup import ldif_stream, manifest, pack, sealed, sharing
from loader.operations.backup.manifest import Backup, StoredList
from loader.operations.backup.origin import Origin
from loader.operations.backup.output import Output, Outputs
from loader.operations.backup.page_list import PageList
from loader.operations.backup.repository import Bring
from loader.operations.backup.sharing import Earlier
from loader.progress import Meter
from loader.run.catalogue import Facts
from loader.run.killpoint import killpoint
from loader.storage import files, held

if TYPE_CHECKING:
    from loader.operations.backup.run import BackupOptions


class Member:
    """looked: facts of the manifest that were so before the snapshot. `made`: the manifest, once it is written."""

    made: Backup

    def __init__(self, options: BackupOptions, origin: Origin, looked: Facts) -> None:
        self.options, self.origin, self.looked = options, origin, looked
        self.source, self.id = origin.directory, str(looked["id"])
        self.final = options.repo / self.id
        self.partial = self.final.with_name(self.final.name + files.PARTIAL)
        self.config = origin.config and options.packing.protected(origin.config)
        self.list: StoredList | PageList = StoredList(())
        self.copied: Facts = {}
        self._earlier: Earlier | None = None

    def look_back(self, bring: Bring) -> Earlier | None:
        """For which pages an incremental backup stores nothing. It needs no snapshot yet."""
        if self.options.incremental:
            self._earlier = sharing.earlier(self.options.repo, str(self.looked["suffix"]), bring)
        return self._earlier

    def copy(self, image: CopyableSnapshot, bring: Bring, outputs: Outputs, meter: Meter) -> None:
        """Into a directory that no verb lists. Raises NoSpace, MdbDamaged, RemoteFailed."""
        with held.private(self.partial) as home, paged(image, pack.PIECE, meter) as stream:
            before = meter.seconds
            known, self._earlier = self._earlier or self.look_back(bring), None
            name = self.options.packing.data_name if known is None else sharing.PACK
            with self._making(home.path / name, outputs) as out:
                self.list = self._stored(stream, out, home.path, known, meter)
        self.copied = self._facts(stream.facts, meter.seconds - before, stream.entries)

    def _stored(
        self, stream: PageStream, out: Output, home: Path, known: Earlier | None, meter: Meter
    ) -> StoredList | PageList:
        if known is None:
            return pack.pack(stream, out, self.options.packing, meter)
        return sharing.store(stream, out, home, known, self.options.packing, meter)

    def copy_entries(self, outputs: Outputs, meter: Meter) -> None:
        """The same of LDIF. Raises NoSpace, MdbDamaged, RemoteFailed."""
        with held.private(self.partial) as home:
            before = meter.seconds
            with (
                ldif_stream.opened(self.source, pack.PIECE, home.path, meter) as stream,
                self._making(home.path / self.options.packing.data_name, outputs) as out,
            ):
                self.list = pack.pack(stream, out, self.options.packing, meter)
        facts = meta.read_meta(self.source)
        self.copied = self._facts(facts, meter.seconds - before, stream.entries)

    def _making(self, target: Path, outputs: Outputs) -> AbstractContextManager[Output]:
        return outputs.making(target, self.id, self.options.packing.keep_free)

    def _facts(self, found: meta.MetaPage, seconds: float, entries: int | None) -> Facts:
        """entries: None where only the look before knows how many there were."""
        known = {} if entries is None else {"entries": entries}
        return {
            "seconds": round(seconds, 3),
            "compacted": not self.options.packing.ldif,
            "is_ldif": self.options.packing.ldif,
            "txnid": found.txnid,
            "lmdb_format": found.format,
            "page_size": found.page_size,
            "map_size": found.map_size,
            "stored_bytes": self.list.stored_bytes,
            **known,
        }

    def write(self, members: tuple[str, ...]) -> None:
        """Everything on the disk, before the name."""
        self.made = self._described(members)
        with held.private(self.partial) as home:
            if self.config is not None:
                files.write_durably(home.path / self.made.config_file, self.config, 0o600)
            files.write_durably(home.path / manifest.PIECES, self.list.text(), 0o600)
            files.write_durably(home.path / manifest.MANIFEST, sealed.text(self.made), 0o600)

    def publish(self) -> None:
        if isinstance(self.list, PageList):
            sharing.publish(self.options.repo, self.partial, self.list)
            killpoint("publish.middle")
        files.publish(self.partial, self.final)

    def forget(self) -> None:
        """Nothing of it stays."""
        files.remove_tree(self.partial)
        files.remove_tree(self.final)

    def _described(self, members: tuple[str, ...]) -> Backup:
        """The manifest. Facts are those of the snapshot; the others were taken just before it."""
        config, listed, packing = self.config, self.list, self.options.packing
        found = Backup(
            **{**self.looked, **self.copied},
            host=socket.gethostname(),
            source=str(self.source.absolute()),
            machine=machine(),
            data_bytes=listed.data_bytes,
            file=manifest.MAP if self.options.incremental else packing.data_name,
            compression=packing.compression,
            pieces=len(listed.pieces),
            pieces_sha256=hashlib.sha256(listed.text()).hexdigest(),
            with_config=config is not None,
            config_sha256=None if config is None else hashlib.sha256(config).hexdigest(),
            members=members,
            recipients=packing.recipients.names if packing.recipients else (),
            ditseed=version("ditseed"),
        )
        return sealed.sealed(found)


def machine() -> str:
    """What LMDB files depend on: word size and byte order."""
    bits = 64 if sys.maxsize > 2**32 else 32
    return f"{bits}-bit {sys.byteorder}-endian ({platform.machine()})"
