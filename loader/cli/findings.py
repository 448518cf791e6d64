"""How findings are shown: the worst first, each with its reason and what mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loader.operations.storage.findings import Finding, Severity
from loader.storage.volumes import Unseen


def lines(findings: Sequence[Finding], unseen: Sequence[Unseen]) -> Iterator[str]:
    for one in findings:
        if one.severity is not Severity.OK:
            yield from _finding(one)
    well = [one for one in findings if one.severity is Severity.OK]
    if well:
        yield "in order:"
        yield from (f"  {one.subject}: {one.what}" for one in well)
    for missing in unseen:
        yield f"not looked at: {missing.what} ({missing.why})"


def _finding(one: Finding) -> Iterator[str]:
    yield f"{one.severity.value.upper()}  {one.subject}: {one.what}"
    if one.why:
        yield from (f"  {line}" for line in _wrapped(one.why))
    yield from (f"    {line}" for line in one.mend)
    if one.source:
        yield f"  ({one.source})"
    yield ""


def _wrapped(text: str) -> list[str]:
    import textwrap  # here, for few runs need it

    return textwrap.wrap(text, 98)
