"""New indexes made by slapindex, where the core is not proven to make them, in a database that no slapd has open.

Until the configuration changes nobody looks at them, so a slapindex that was killed or failed does no harm: kinds that
were there before are only added to.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loader import units
from loader.child import Child
from loader.config import Config
from loader.errors import MapFull, ToolFailed
from loader.mdb.meta import DATA
from loader.operations import indexing
from loader.operations.tune.plan import Plan
from loader.progress import Progress
from loader.server import account, configuration, private, tools
from loader.storage import held, temporary
from loader.storage.files import Owner


def make(config: Config, plan: Plan, progress: Progress) -> None:
    """Run slapindex as the owner of the database, with the changed configuration. Raises MapFull, ToolFailed."""
    directory = plan.database.directory
    assert directory is not None
    owner = _owner(directory)
    changed = {one.attribute: [value.encode() for value in one.after] for one in plan.changes}
    lines = [value.decode() for value in changed.get("olcDbIndex", [])]
    if chosen := indexing.only(lines, plan.index):
        changed["olcDbIndex"] = chosen
    settings = {"olcDbDirectory": [bytes(directory)], **changed}
    with (
        temporary.directory("index", configuration.tools_tmpdir()) as place,
        private.configured(config, plan.database, Path(place), settings) as copy,
    ):
        account.change_owner(owner, Path(place))
        words = ["-q", "-F", str(copy), "-b", plan.database.suffix]
        _run(tools.server_tool_as(owner.uid, owner.gid, "slapindex", *words), plan, progress)


def _owner(directory: Path) -> Owner:
    """Of the database. slapindex follows links: root does not run it where somebody else can put some. Raises
    FileUnsafe."""
    with held.opened(directory) as place, place.pinned(DATA, written=True) as data:
        found = Owner.of(data)
        return Owner.told(place.status) if found.uid == 0 and place.is_foreign else found


def _run(command: Sequence[str], plan: Plan, progress: Progress) -> None:
    with (
        progress.step("slapindex") as meter,
        Child(command) as child,
        meter.cancelling(child.kill),
    ):
        try:
            child.check()
        except ToolFailed as error:
            if "MDB_MAP_FULL" in " ".join(child.words):
                size = units.size(plan.database.maxsize)
                raise MapFull(path=plan.database.directory, map_size=size) from error
            raise ToolFailed(**{**error.facts, "tool": "slapindex"}) from error
