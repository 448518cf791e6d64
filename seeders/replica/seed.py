"""Seed a replica: entries from a live provider, LDIF or an existing database go into the consumer's database, with the
contextCSN from which its own syncrepl then goes on.

`seed` is the list of what all strategies have in common; what differs is in strategies/.
"""

from __future__ import annotations

from collections.abc import Mapping

from loader.progress import Progress
from loader.run.log import Facts
from loader.run.steps import open_run
from seeders.replica import catchup
from seeders.replica import preflight as planned
from seeders.replica.preflight import preflight
from seeders.replica.strategies import SeedOptions, Strategy
from seeders.replica.strategies.clone import Clone
from seeders.replica.strategies.online import Online
from seeders.replica.strategies.stopped import Ldif, Search

STRATEGIES: dict[str, type[Strategy]] = {"search": Search, "ldif": Ldif, "clone": Clone, "online": Online}


def seed(
    options: SeedOptions,
    progress: Progress,
    timeouts: Mapping[str, float],
    restart: bool = False,
    seconds: Mapping[str, float] | None = None,
) -> Facts:
    """Run or resume the seeding; the facts for the report. Once it has finished, it does nothing. `seconds`: that a
    plan gave each step."""
    strategy = STRATEGIES[options.strategy](options)
    run_dir, identity = strategy.run_dir, strategy.identity()
    anew = strategy.begins_anew(restart)
    with open_run(run_dir, strategy.verb, identity, progress, timeouts, anew) as run:
        strategy.begin(run, anew)
        planned.note(run.catalogue, seconds or {})
        foreseen = run.do("preflight", lambda meter: preflight(strategy))
        made = strategy.run(run)
        told = catchup.told(foreseen, made.get("entries"))
        return {**made, **told, "run_dir": str(run_dir)}


def plan(options: SeedOptions, progress: Progress) -> Facts:
    """What a seeding would do: all checks that change nothing, and the number of entries."""
    strategy = STRATEGIES[options.strategy](options)
    seen = preflight(strategy, dry_run=True)
    found = strategy.plan(seen["suffix"], progress)
    return {**seen, **found, "dry_run": "nothing was changed"}
