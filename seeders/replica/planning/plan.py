"""The plan as a file: what `replica plan -o` writes and `replica seed --plan` reads. Nothing in it is believed before
it is held against its types, its owner, and the provider and consumer as they are now."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from loader import dn, typed
from loader.config import Config
from loader.errors import NoSuchPath, UsageProblem
from loader.server import configuration
from loader.server.options import Connection
from loader.server.session import session
from loader.storage import files
from loader.typed import Count, Digest64, Seconds, Unfit
from seeders.replica.strategies import SeedOptions

FORMAT = 1
TIMES = 3.0  # a step may be silent for so many times as long as all of it was planned to take
LEAST_SILENCE = 60.0  # seconds

StrategyName = Literal["search", "ldif", "clone", "online"]
Text = Annotated[str, msgspec.Meta(max_length=1 << 16)]
Step = Annotated[str, msgspec.Meta(pattern=r"^[a-z-]{1,32}\Z")]
Rate = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
_PASSING = "olcdbmaxsize"  # ditseed itself may set it before a seeding


@dataclass(frozen=True)
class PlannedStep:
    """seconds: that it will take. `why`: how they come about."""

    name: Step
    seconds: Seconds
    why: Text

    @property
    def timeout(self) -> float:
        """Seconds of silence after which it is given up."""
        return float(round(max(LEAST_SILENCE, TIMES * self.seconds)))


@dataclass(frozen=True)
class ProviderLoad:
    """What the provider serves for it. bytes: LDIF, about what crosses the network."""

    connections: Count
    entries_per_second: Rate
    bytes: Count


@dataclass(frozen=True)
class StrategyPlan:
    """`refused`: the code of the error with which a seeding would end, None: it is feasible; `reason`, `advice`: of it.
    `catch_up`: what the provider sends once the consumer is started; `only_changes`: and nothing else. seconds: all
    steps and the catch-up, None where nothing tells. disk: bytes on the consumer."""

    strategy: StrategyName
    refused: Text | None = None
    reason: Text = ""
    advice: Text = ""
    steps: tuple[PlannedStep, ...] = ()
    catch_up: Text = ""
    only_changes: bool = False
    loses_deletions: bool = False
    seconds: Seconds | None = None
    disk: Count | None = None
    load: ProviderLoad | None = None
    source: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()

    @property
    def feasible(self) -> bool:
        return self.refused is None


@dataclass(frozen=True)
class SeedPlan:
    """Of one provider and one consumer. `chosen` None: no strategy is feasible. `provider`: its URI, and the entryUUID
    of the suffix entry there; `configuration`: SHA-256 of the consumer's."""

    suffix: Text
    provider: Text | None
    provider_uuid: Text
    configuration: Digest64
    made: Text
    entries: Count | None
    measured: tuple[Text, ...]
    strategies: tuple[StrategyPlan, ...]
    chosen: StrategyName | None
    why: Text
    notes: tuple[Text, ...] = ()
    format: int = FORMAT

    @property
    def choice(self) -> StrategyPlan | None:
        return next((one for one in self.strategies if one.strategy == self.chosen), None)


def write(plan: SeedPlan, path: Path) -> None:
    text = json.dumps(dataclasses.asdict(plan), indent=2) + "\n"
    files.write_durably(path.absolute(), text.encode(), 0o600)


def read(path: Path) -> SeedPlan:
    """Raises UsageProblem for what is no plan, or what another account may have written."""
    try:
        found = typed.parse(typed.content(path, own=True), SeedPlan, FORMAT)
        _require_sense(found)
    except FileNotFoundError:
        raise NoSuchPath(path=path) from None
    except Unfit as error:
        reason = str(error).replace("a manifest", "a plan of `ditseed replica plan`")
        raise UsageProblem(reason=f"--plan {path}: {reason}") from error
    return found


def _require_sense(plan: SeedPlan) -> None:
    names = [one.strategy for one in plan.strategies]
    if len(set(names)) != len(names):
        raise Unfit("names a strategy twice")
    if plan.chosen is not None and (plan.choice is None or not plan.choice.feasible):
        raise Unfit(f"chooses {plan.chosen}, which is not feasible by it")


def require_same(
    plan: SeedPlan, path: Path, config: Config | None, provider: Connection | None, suffix: str | None
) -> None:
    """Are provider and consumer those for which the plan was made? Raises UsageProblem."""
    if suffix is not None and dn.key(suffix) != dn.key(plan.suffix):
        raise _other(path, f"it is for {plan.suffix}, not {suffix}")
    if config is not None and fingerprint(config) != plan.configuration:
        raise _other(path, f"the consumer's configuration {config.where} is not that of the plan")
    if provider is None:
        return  # of LDIF or a copy, which may have been planned with a provider that is asked about the catch-up alone
    if provider.uri != plan.provider:
        raise _other(path, f"it is for the provider {plan.provider}, not {provider.uri}")
    if uuid_of(provider, plan.suffix) != plan.provider_uuid:
        raise _other(path, f"{provider.uri} holds another tree than when the plan was made")


def _other(path: Path, reason: str) -> UsageProblem:
    return UsageProblem(reason=f"--plan {path}: {reason}; make the plan again with `ditseed replica plan`")


def fingerprint(config: Config) -> str:
    kept = [one for one in sorted(config.settings.items()) if one[0][1] != _PASSING]
    return hashlib.sha256(repr(kept).encode()).hexdigest()


def uuid_of(provider: Connection, suffix: str) -> str:
    """entryUUID of the entry of the base."""
    with session(provider) as server:
        found = server.read(provider.base or suffix, ["entryUUID"]).get("entryuuid", [])
    return found[0].decode("utf-8", "replace") if found else ""


def timeouts(chosen: StrategyPlan) -> dict[str, float]:
    """For `replica seed`: seconds by step."""
    return {one.name: one.timeout for one in chosen.steps if one.name != "catch-up"}


# --- following -------------------------------------------------------------------------------------------------------
#
# `replica seed --plan`: what a plan gives to a seeding, once it is held against what is there now.


@dataclass(frozen=True)
class Followed:
    """A plan, and the strategy of it that is carried out."""

    path: Path
    plan: SeedPlan
    row: StrategyPlan

    @classmethod
    def read(cls, path: Path, strategy: str | None) -> Followed:
        """`strategy` goes before that of the plan. Raises UsageProblem."""
        plan = read(path)
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
        return dict(asked) if "*" in asked else {**timeouts(self.row), **asked}

    @property
    def seconds(self) -> dict[str, float]:
        return {one.name: one.seconds for one in self.row.steps}

    def require_same(self, asked: SeedOptions) -> None:
        """Raises UsageProblem where provider or consumer are not those of the plan."""
        config = configuration.read(asked.config_path) if asked.config_path else None
        suffix = config.database(asked.suffix).suffix if config else asked.suffix
        require_same(self.plan, self.path, config, asked.connection, suffix)
