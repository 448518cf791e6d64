"""Seed a replica: entries from a live provider, LDIF or an existing database go into the consumer's database, with the
contextCSN from which its own syncrepl then goes on.

`seed` is what all strategies have in common; strategies/ has the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from loader.progress import Progress
from loader.run.log import Facts
from loader.run.steps import open_run
from seeders.replica import catchup, plan
from seeders.replica.preflight import preflight
from seeders.replica.strategies import SeedOptions, Strategy
from seeders.replica.strategies.clone import Clone
from seeders.replica.strategies.online import Online
from seeders.replica.strategies.stopped import Ldif, Search

STRATEGIES: dict[str, type[Strategy]] = {"search": Search, "ldif": Ldif, "clone": Clone, "online": Online}
OPTIONAL = {name for strategy in STRATEGIES.values() for name in strategy.takes}  # not every strategy takes them


def options_of(name: str, options: SeedOptions) -> SeedOptions:
    """For one strategy, without the options of others, which a profile may hold."""
    unfitting = OPTIONAL - STRATEGIES[name].takes
    kept = {field.name: field.default for field in dataclasses.fields(options) if field.name in unfitting}
    return SeedOptions(**{**vars(options), **kept, "strategy": name})


def seed(
    options: SeedOptions,
    progress: Progress,
    timeouts: Mapping[str, float],
    restart: bool = False,
    planned: Mapping[str, float] | None = None,
) -> Facts:
    """Runs or resumes the seeding; the facts for the report. Once it has finished, it does nothing. `planned` has the
    seconds of each step by --plan."""
    strategy = STRATEGIES[options.strategy](options)
    run_dir, anew = strategy.run_dir, strategy.begins_anew(restart)
    with open_run(run_dir, strategy.verb, strategy.identity(), progress, timeouts, anew) as run:
        strategy.begin(run, anew)
        plan.note(run.catalogue, planned or {})
        foreseen = run.do("preflight", lambda meter: preflight(strategy))
        facts = strategy.run(run)
        return {**facts, **catchup.told(foreseen, facts.get("entries")), "run_dir": str(run_dir)}
