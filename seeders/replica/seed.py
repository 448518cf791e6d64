"""`replica seed`: fills the database of a new replica by one of the strategies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from loader.progress import Progress
from loader.run.log import Report
from loader.run.steps import open_run
from seeders.replica.catchup import Preflight
from seeders.replica.online import Online
from seeders.replica.options import STRATEGY_NAMES, SeedOptions
from seeders.replica.preflight import preflight
from seeders.replica.strategies import Clone, Ldif, Search, Strategy

STRATEGIES: dict[str, type[Strategy]] = dict(zip(STRATEGY_NAMES, (Search, Ldif, Clone, Online), strict=True))
OPTIONAL = {name for strategy in STRATEGIES.values() for name in strategy.takes}  # options only some strategies accept


def options_of(name: str, options: SeedOptions) -> SeedOptions:
    """Returns the options for strategy `name`, and resets those it does not accept, which a profile may have set."""
    unfitting = OPTIONAL - STRATEGIES[name].takes
    kept = {field.name: field.default for field in dataclasses.fields(options) if field.name in unfitting}
    return SeedOptions(**{**vars(options), **kept, "strategy": name})


def seed(options: SeedOptions, progress: Progress, timeouts: Mapping[str, float], restart: bool = False) -> Report:
    """Runs or resumes the seeding; does nothing if it has finished. Returns the facts for the report."""
    strategy = STRATEGIES[options.strategy](options)
    run_dir, anew = strategy.run_dir, strategy.begins_anew(restart)
    with open_run(run_dir, strategy.verb, strategy.identity, progress, timeouts, anew) as run:
        strategy.begin(run, anew)
        checked = run.do("preflight", lambda meter: preflight(strategy), Preflight)
        facts = {**strategy.run(run), **run.done_before()}
        if checked.catch_up:
            facts["catch_up"] = checked.catch_up
        if checked.prepared is not None:
            facts["prepared"] = checked.prepared
        return {**facts, "run_dir": str(run_dir)}
