"""Reads and writes leases in a state directory of ditseed."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from msgspec import structs

from loader.run.lease import LEASES, Lease
from loader.run.log import Log, Row


def recorded_leases(state: Path | None = None) -> list[Lease]:
    """Returns the leases in `state`; None: in the state directory that the environment names."""
    return [Lease(**row.facts) for row in Log(state or Path(os.environ["DITSEED_STATE_DIR"]), LEASES).of("lease")]


def write(state: Path, lease: Lease, **changed: str) -> None:
    """Writes a lease as an earlier run would have. `changed`: facts to replace."""
    with closing(Log(state, LEASES)) as log:
        log.append(Row("lease", lease.name, {**structs.asdict(lease), **changed}))
