"""`replica seed --plan`: what a plan gives to a seeding, once it is held against what is there now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loader.errors import UsageProblem
from loader.server import configuration
from seeders.replica.planning import plan as plans
from seeders.replica.planning.plan import SeedPlan, StrategyPlan
from seeders.replica.strategies import SeedOptions


@dataclass(frozen=True)
class Followed:
    """A plan, and the strategy of it that is carried out."""

    path: Path
    plan: SeedPlan
    row: StrategyPlan

    @classmethod
    def read(cls, path: Path, strategy: str | None) -> Followed:
        """`strategy` goes before that of the plan. Raises UsageProblem."""
        plan = plans.read(path)
        wanted = strategy or plan.chosen
        row = next((one for one in plan.strategies if one.strategy == wanted), None)
        if row is None:
            raise UsageProblem(reason=f"--plan {path}: by it, no strategy can be carried out")
        if not row.feasible:
            reason = f"--plan {path}: by it, --strategy {wanted} cannot be taken: {row.reason}"
            raise UsageProblem(reason=reason)
        return cls(path, plan, row)

    def timeouts(self, asked: Mapping[str, float]) -> dict[str, float]:
        """Those of the plan, under what --timeout says."""
        return dict(asked) if "*" in asked else {**plans.timeouts(self.row), **asked}

    @property
    def seconds(self) -> dict[str, float]:
        return {one.name: one.seconds for one in self.row.steps}

    def require_same(self, asked: SeedOptions) -> None:
        """Raises UsageProblem where provider or consumer are not those of the plan."""
        config = configuration.read(asked.config_path) if asked.config_path else None
        suffix = config.database(asked.suffix).suffix if config else asked.suffix
        plans.require_same(self.plan, self.path, config, asked.connection, suffix)
