"""Changing a slapd.d that no slapd runs on: one file of it is replaced, whole and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loader.config import Config
from loader.errors import ConfigNotEditable
from loader.operations.tune.plan import Plan
from loader.server import configuration_write
from loader.storage import files, rewrite

BY_HAND = "Nothing was changed. Change it by hand, and tell us what this configuration looks like."


@contextmanager
def prepare_directory(config: Config, plan: Plan) -> Iterator[tuple[str, Callable[[], None]]]:
    """The change record, and what puts the changed entry's file in place.

    slapd's tools check exactly the bytes that are put in place.
    """
    real = configuration_write.entry_file(config.path, plan.database)
    old = _content(real)
    new = configuration_write.edited(old, config, plan.changes)
    found = configuration_write.check_directory(config, plan.database, new, plan.changes)
    require_only(config, found, plan)

    def publish() -> None:
        rewrite.rewrite(real, old, new)

    yield configuration_write.change_record(plan.database.entry_dn, plan.changes), publish


def _content(file: Path) -> bytes:
    if not file.is_file():
        raise ConfigNotEditable(
            path=file, reason="no such file in slapd.d", advice=BY_HAND, lines=()
        )
    return files.read(file)


def require_only(before: Config, after: Config, plan: Plan) -> None:
    """The change is there, and nothing else changed: read back by slapd's own tools."""
    databases = [one for one in after.databases if one.entry_dn == plan.database.entry_dn]
    others = configuration_write.other_differences(before, after, plan.database)
    if others:
        reason = f"the change would alter {', '.join(others[:5])} too"
        raise ConfigNotEditable(path=before.path, reason=reason, advice=BY_HAND, lines=())
    if not databases or not plan.holds(databases[0]):
        reason = "slapd's tools do not read the change back as it was made"
        raise ConfigNotEditable(path=before.path, reason=reason, advice=BY_HAND, lines=())
