"""`ditseed tune maxsize --for`: what may be said of the sample, and the recommendation with its arithmetic."""

from __future__ import annotations

from typing import Any

import click

from loader import units
from loader.cli.report import show, show_table
from loader.operations.tune.forecast import LoadPlan
from loader.sources.sampling import SampleSize

_ANY = 1 << 62  # records: who asks for a share gets it


class Share(click.ParamType[float]):
    """50% or 0.5."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            number = float(value.rstrip("%")) / (100 if value.endswith("%") else 1)
        except ValueError:
            number = -1.0
        if not 0 <= number < 1000:
            self.fail(f"not a share: {value!r} (write 50% or 0.5)", param, ctx)
        return number


class Sampled(click.ParamType[SampleSize]):
    """20000 or 5%."""

    name = "sample"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> SampleSize:
        if isinstance(value, SampleSize):
            return value
        if value.isdigit() and int(value):
            return SampleSize(int(value), 0.0, most=int(value))
        share = Share().convert(value, param, ctx) if value.endswith("%") else 0.0
        if not 0 < share <= 1:
            self.fail(f"not a sample: {value!r} (write 20000 or 5%)", param, ctx)
        return SampleSize(1, share, most=_ANY)


def show_plan(plan: LoadPlan) -> None:
    load = plan.load
    show(
        "",
        f"sample: {units.number(load.sampled)} of {units.number(load.entries)} entries ({load.how})",
    )
    if load.rejected:
        show(
            f"note: {units.number(load.rejected)} of the sample were rejected, and are not counted"
        )
    for note in plan.notes:
        show(f"note: {note}")
    rows = [
        (one.name, units.size(one.sample), units.size(one.bytes), one.how) for one in load.tables
    ]
    show_table(("table", "in the sample", "after the load", "computed"), rows)
    show(f"a build takes about {units.duration(load.seconds)} on this host", "")
    show_table(
        ("maxsize for", "bytes", "because"),
        [(one.what, units.size(one.bytes), one.why) for one in plan.terms],
    )
    show(
        f"now {units.size(plan.now)}, after the load {units.size(plan.after)}, in all {units.size(plan.needed)}; "
        f"configured {units.size(plan.maxsize)}, recommended {units.size(plan.recommended)}"
    )
