"""Write down, then change: the one place where a setting of a server is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loader.errors import ConfigNotEditable
from loader.operations.tune.directory import BY_HAND
from loader.operations.tune.plan import EDIT, Outcome, Plan, State
from loader.operations.tune.target import Target
from loader.run.lease import recorded
from loader.run.log import killpoint


def carry_out(
    target: Target, plan: Plan, apply: bool, first: Callable[[], Sequence[str]] | None = None
) -> Outcome:
    """Check the change and, with `apply`, make it. `first`: what must be done before (new indexes);
    its notes.

    What holds already is not written again. Killed before the change is in place: the old settings stand, and the same
    command does it; after: it does nothing.
    """
    if plan.holds(plan.database):
        return Outcome(State.UNCHANGED)
    with target.prepared(plan) as prepared:
        if not apply:
            state = State.PROPOSED if prepared.publish else State.BY_HAND
            return Outcome(state, prepared.difference, plan.notes)
        if prepared.publish is None:
            raise ConfigNotEditable(
                path=target.config.where,
                reason="ditseed does not edit a slapd.conf",
                advice=EDIT,
                lines=(*prepared.difference.split("\n"), *plan.notes),
            )
        with recorded(*plan.records(target.config, target.place)):
            killpoint("tune.written-down")
            told = first() if first else ()
            killpoint("tune.before-change")
            prepared.publish()
            _require_in_force(target, plan)
        killpoint("tune.changed")
    return Outcome(State.CHANGED, prepared.difference, (*plan.notes, *told))


def _require_in_force(target: Target, plan: Plan) -> None:
    now = {one.entry_dn.lower(): one for one in target.read().databases}
    if not plan.holds(now[plan.database.entry_dn.lower()]):
        raise ConfigNotEditable(
            path=target.config.where,
            reason="the change was made, but is not seen",
            advice=BY_HAND,
            lines=(),
        )
