"""`ditseed tune maxsize --for`: what may be said of the sample, and the recommendation with its arithmetic."""

from __future__ import annotations

from loader import units
from loader.cli.report import show, show_table
from loader.cli.written import Share, Written
from loader.errors import UsageProblem
from loader.operations.tune.forecast import LoadPlan
from loader.sources.sampling import SampleSize

_ANY = 1 << 62  # records: who asks for a share gets it


class Sampled(Written):
    """20000 or 5%."""

    name, kind = "sample", SampleSize

    def parse(self, text: str) -> SampleSize:
        if text.isdigit() and int(text):
            return SampleSize(int(text), 0.0, most=int(text))
        if not text.endswith("%"):
            raise UsageProblem(reason=f"{text} is no sample: write 20000 or 5%")
        return SampleSize(1, Share().parse(text), most=_ANY)


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
