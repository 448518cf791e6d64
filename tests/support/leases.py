"""The leases that ditseed has written down in a state directory."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from msgspec import structs

from loader.run.lease import LEASES, Lease
from loader.run.log import Log, Row


def standing(state: Path | None = None) -> list[Lease]:
    """None: in the one that the environment names."""
    return [Lease(**row.facts) for row in Log(state or Path(os.environ["DITSEED_STATE_DIR"]), LEASES).of("lease")]


def write(state: Path, lease: Lease, **changed: str) -> None:
    """As one that was written down before; `changed`: in some of its facts."""
    with closing(Log(state, LEASES)) as log:
        log.append(Row("lease", lease.name, {**structs.asdict(lease), **changed}))
