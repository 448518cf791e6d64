"""What is mutated, who reads it, and what must hold afterwards."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from loader import backmdb, config, indexes, ldif, syncrepl, typed
from loader.config import Config, Database
from loader.errors import LoaderError
from loader.operations import live
from loader.operations.backup import check, repository
from loader.operations.backup import manifest as backup_manifest
from loader.operations.backup.options import RestoreOptions
from loader.operations.backup.restore import plan as restore_plan
from loader.operations.build import native
from loader.operations.build.steps import BuildOptions
from loader.progress import Meter
from loader.run.log import FILE, Catalogue
from loader.run.steps import status_of
from loader.server import configuration, questions
from loader.sinks import mdb
from loader.typed import Unfit
from seeders.replica import strategies
from tests.fuzz.hostile import mutate


class Wrong(AssertionError):
    """Read, but otherwise than it was written."""


@dataclass
class Target:
    """In a place of its own. `once` mutates and reads; it raises LoaderError (fine), or anything else (a finding)."""

    home: Path

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.prepare()

    def prepare(self) -> None:
        raise NotImplementedError

    def once(self, chance: Random) -> None:
        raise NotImplementedError


class Export(Target):
    """manifest.json of an export in three shards."""

    entries = 60

    def prepare(self) -> None:
        numbers, shards = iter(range(self.entries)), []
        for at in range(3):
            path = self.home / f"{at}.ldif"
            path.write_text("".join(_entry(next(numbers)) for _ in range(self.entries // 3)))
            shards.append(_shard(path))
        self.facts: dict[str, Any] = {
            "base": "dc=example,dc=com",
            "entries": self.entries,
            "content_checksum": ldif.total_of(one["content_checksum"] for one in shards),
            "context_csns": ["20261121070501.123456Z#000000#001#000000"],
            "shards": shards,
            "source": "ldap://provider",
            "started": "2026-11-21T07:05:01+00:00",
            "finished": "2026-11-21T07:05:09+00:00",
            "partitions": "3 ranges",
            "notes": ["one"],
            "hidden": [],
            "format": ldif.FORMAT,
        }

    def once(self, chance: Random) -> None:
        path = self.home / ldif.MANIFEST
        path.write_bytes(mutate.json_text(chance, self.facts))
        meter = Meter("scan")
        strategies.context_csns_of_ldif([self.home])
        live.require_whole(self.home)
        with ldif.verified_inputs([self.home], meter) as paths:
            found = ldif.scan(paths, meter)
        ldif.require_read([self.home], found.entries)
        if found.entries != self.entries:
            raise Wrong(f"{found.entries} of {self.entries} entries")


def _entry(number: int) -> str:
    return f"dn: cn={number},dc=example,dc=com\nobjectClass: device\ncn: {number}\n\n"


def _shard(path: Path) -> dict[str, Any]:
    meter = Meter("digest")
    with ldif.digesting((), meter) as tree:
        tree.add_path(str(path))
    size, checksum = path.stat().st_size, ldif.checksum_of(path)
    names = ("name", "bytes", "checksum", "entries", "content_checksum")
    return dict(zip(names, (path.name, size, checksum, tree.entries, tree.checksum), strict=True))


class Backup(Target):
    """manifest.json of a backup: listed, checked, planned to be restored."""

    def prepare(self) -> None:
        self.repo, self.target = self.home / "repo", self.home / "target"
        self.target.mkdir(exist_ok=True)
        self.name = "20261121T021500Z-dc-example-dc-com"
        place = self.repo / self.name
        place.mkdir(parents=True, exist_ok=True)
        data = b"x" * 4096
        files = []
        for name in (backup_manifest.MAP, backup_manifest.PACK):
            (place / name).write_bytes(data)
            sums = [hashlib.sha256(data).hexdigest()]
            files.append({"name": name, "bytes": len(data), "sums": sums})
        from loader.operations.backup.run import machine

        self.facts: dict[str, Any] = {
            "id": self.name,
            "made": "2026-11-21T02:15:00+00:00",
            "seconds": 1.5,
            "host": "host",
            "source": "/var/lib/ldap",
            "suffix": "dc=example,dc=com",
            "entries": 60,
            "context_csns": ["20261121070501.123456Z#000000#001#000000"],
            "newest_csns": ["20261121070501.123456Z#000000#001#000000"],
            "txnid": 7,
            "lmdb_format": 1,
            "page_size": 4096,
            "map_size": 1 << 30,
            "machine": machine(),
            "data_bytes": 4096,
            "stored_bytes": 8192,
            "files": files,
            "ditseed": "0.1.0",
            "format": backup_manifest.FORMAT,
        }

    def once(self, chance: Random) -> None:
        from loader.cli import backup_cmd

        path = self.repo / self.name / backup_manifest.MANIFEST
        path.write_bytes(_resealed(mutate.json_text(chance, self.facts)))
        limits = check.Limits(1e9)
        found = repository.listing(self.repo)
        for one in (*found.backups, *found.future):
            backup_cmd.row(one, backup_manifest.Proofs(None, None), None)
            json.dumps(backup_manifest.text(one).decode())
        if check.check(self.repo, limits).status is check.Status.OK and not found.backups:
            raise Wrong("OK without a backup")
        check.check(self.repo, limits).text()
        restore_plan(RestoreOptions(self.repo, repository.LATEST, target=self.target))


def _resealed(text: bytes) -> bytes:
    """As somebody would write it who may write in the repository, so that more than the seal is tried."""
    with suppress(Unfit):
        found = typed.parse(text, backup_manifest.Backup, backup_manifest.FORMAT)
        return backup_manifest.text(backup_manifest.sealed(found))
    return text


_OPTIONS: dict[str, object] = {"uri": "ldap://provider", "inputs": [["/a", 1]], "suffix": None}


class Run(Target):
    """run.log of a run: lines changed, removed, repeated, exchanged, with the old seals; or bytes of the file."""

    def prepare(self) -> None:
        shutil.rmtree(self.home)
        self.home.mkdir(mode=0o700)
        with closing(Catalogue(self.home)) as run:
            run.begin("export", _OPTIONS)
            run.finish("start", {"base": "dc=example,dc=com", "context_csns": ["x"]}, 0, 0.1)
            run.finish("read", {"entries": 60, "shards": [["0.ldif", 5]]}, 60, 1.5)
            run.finish("publish", {"bytes": 4096, "published": {"entries": 60}}, 0, 0.1)
            for number in range(3):
                run.finish_partition("read", f"{number}", {"entries": 20, "sum": "00"})
        self.whole = (self.home / FILE).read_bytes()
        self.found = self._read()

    def once(self, chance: Random) -> None:
        path = self.home / FILE
        if chance.random() < 0.2:
            path.write_bytes(mutate.octets(chance, self.whole, (b"\0", b"\xff", b"{}", b"read")))
        else:
            path.write_bytes(_changed(chance, self.whole))
        for name, known in self._read().items():
            if known is not None and known != self.found[name]:
                raise Wrong(f"{name} is {known}")

    def _read(self) -> dict[str, Any]:
        """None, or nothing of a partition: not done yet, which is done again."""
        status_of(self.home)
        with closing(Catalogue(self.home)) as run:
            if run.differences("export", _OPTIONS) is None:
                run.begin("export", _OPTIONS)
            run.has_work()
            steps = {name: run.facts_of(name, dict) for name in ("start", "read", "publish")}
            parts = run.partitions("read", dict)
            run.ended()
            return {**steps, **{f"part {name}": parts.get(name) for name in ("0", "1", "2")}}


def _changed(chance: Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    here, there = chance.randrange(len(lines)), chance.randrange(len(lines))
    what = chance.random()
    if what < 0.2:
        del lines[here]
    elif what < 0.4:
        lines.insert(here, lines[there])
    elif what < 0.5:
        lines[here], lines[there] = lines[there], lines[here]
    elif lines[here]:
        seal, _, body = lines[here].partition(b" ")
        lines[here] = seal + b" " + mutate.json_text(chance, json.loads(body))
    return b"\n".join(lines)


class Configuration(Target):
    """cn=config as slapcat prints it: parsed, and read for a build, a seeding, an export."""

    def prepare(self) -> None:
        self.lines = Path(__file__).with_name("config.ldif").read_bytes().splitlines()

    def once(self, chance: Random) -> None:
        path = Path("/etc/ldap/slapd.d")
        entries = configuration.entries_of(mutate.ldif_text(chance, self.lines), path)
        found = config.parse(path, entries)
        refused: Exception | None = None
        for database in found.mdb_databases:
            for read in _READERS:
                refused = _tried(lambda read=read, database=database: read(found, database)) or refused  # type: ignore[misc]
        if refused:
            raise refused
        found.database("dc=example,dc=com")


def _tried(work: Callable[[], object]) -> Exception | None:
    try:
        work()
    except LoaderError as error:
        return error
    return None


def _schema(found: Config, database: Database) -> None:
    definitions = backmdb.definitions(found, [])
    list(backmdb.synonyms(definitions, ["cn", "commonname", "x"]))
    mdb.schema(definitions, [], **backmdb.schema_effects(found, database))


_READERS: tuple[Callable[[Config, Database], object], ...] = (
    lambda found, one: backmdb.settings(found, one),
    lambda found, one: native.proven_settings(found, one, BuildOptions(Path())),
    lambda found, one: syncrepl.of_database(found, one, None),
    lambda found, one: syncrepl.of_database(found, one, "ldap://provider"),
    lambda found, one: config.subordinates(found, one),
    lambda found, one: list(config.suffixes_below(found, one)),
    lambda found, one: config.is_subordinate(found, one),
    lambda found, one: indexes.lacking_for_sync(indexes.parse(one.indexes)),
    lambda found, one: found.database(one.suffix),
    _schema,
)


@dataclass
class _Server:
    """Shows one subschema."""

    types: list[bytes]
    uri: str = "ldap://server"

    def read(self, dn: str, *asked: object) -> dict[str, list[bytes]]:
        return {"attributetypes": self.types} if dn else {"subschemasubentry": [b"cn=Subschema"]}


class Subschema(Target):
    """The attribute types that a server shows."""

    def prepare(self) -> None:
        self.types = [
            b"( 2.5.18.1 NAME 'createTimestamp' EQUALITY generalizedTimeMatch SYNTAX "
            b"1.3.6.1.4.1.1466.115.121.1.24 SINGLE-VALUE NO-USER-MODIFICATION USAGE directoryOperation )",
            b"( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name SYNTAX 1.2.3{32768} X-ORDERED 'VALUES' )",
            b"( isMemberOf-oid NAME 'isMemberOf' NO-USER-MODIFICATION USAGE dSAOperation X-ORIGIN ( 'a' 'b' ) )",
        ]

    def once(self, chance: Random) -> None:
        types = list(self.types)
        at = chance.randrange(len(types))
        types[at] = mutate.octets(chance, types[at], (b"(", b")", b"'", b" NAME ", b"$", b"{", b"\xff"))
        server: Any = _Server(types)
        found = questions.subschema(server)
        questions.everything(server)
        if len(found.protected) > len(types) * 3:
            raise Wrong(f"{found.protected} of {types}")


TARGETS: dict[str, type[Target]] = {
    "export": Export,
    "backup": Backup,
    "run": Run,
    "config": Configuration,
    "subschema": Subschema,
}
