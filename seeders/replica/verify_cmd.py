"""ditseed replica verify: wait until the replica has caught up, then compare it with its provider."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from loader import errors, units
from loader.cli.access import Consumer, ConsumerUri, Server, connection_of, consumer_of
from loader.cli.options import Shown
from loader.cli.report import show, show_facts, show_json
from loader.declared import command as declare
from loader.operations.compare import CompareReport, Sample
from seeders.replica import preparing
from seeders.replica import waiting as checking
from seeders.replica.waiting import VerifyOptions


@dataclass(frozen=True, kw_only=True)
class _Consumer(Consumer):
    consumer_uri: Annotated[ConsumerUri, {"required": True}] = None


@declare("verify")
def command(server: Server, at: _Consumer, options: VerifyOptions, shown: Shown) -> int:
    """Wait until the replica has caught up, then compare every entry with the provider (-H -D -y -b).

    While waiting it shows what the provider is sending, the contextCSN of both and how far the replica is behind; also
    the phase of the replica's syncrepl, if the bind DN may read cn=Monitor there.

    Of a partial replica, only what its syncrepl selects is compared: as its cn=config says, where the bind DN may read
    it, or --config.

    Exit status: 0 equal, 1 different, 30 a server cannot be reached, 38 the replica did not catch up.

    \b
    Example:
      ditseed replica verify -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --consumer ldap://new-replica
    """
    provider = connection_of(server)
    options = dataclasses.replace(options, provider=provider, consumer=consumer_of(provider, at) or provider)
    waited, report, how = checking.verify(options, shown.progress)
    if shown.as_json:
        said = {"waited": waited, "compared_as": how, **dataclasses.asdict(report)}
        show_json({**said, "equal": report.equal})
    else:
        show_facts({"compared as": how, **_compared(waited, report)})
        show(*_how_to_see(report), *preparing.standing(provider.uri or ""))
    return errors.EXIT_OK if report.equal else errors.EXIT_DIFFERENT


def _compared(waited: float, report: CompareReport) -> dict[str, object]:
    return {
        "caught up after": units.duration(waited),
        "entries": f"{report.a.entries:,} and {report.b.entries:,}",
        "checksums": f"{report.a.checksum} and {report.b.checksum}",
        "differences": f"{report.only_a + report.only_b + report.changed:,}",
        **{f"{number}: {_KINDS[one.kind]}": _named(one) for number, one in _numbered(report)},
        **({"not compared": f"{', '.join(report.local)}{_LOCAL}"} if report.local else {}),
        **{f"note {number}": one for number, one in enumerate(report.notes, 1)},
        "verdict": _verdict(report),
    }


_LOCAL = ": each server keeps them for itself"
_KINDS = {"only-a": "missing", "only-b": "only on the replica", "changed": "differs"}


def _numbered(report: CompareReport) -> Iterator[tuple[int, Sample]]:
    return enumerate(report.samples, 1)


def _named(one: Sample) -> str:
    return f"{one.dn} ({', '.join(one.attributes)})" if one.attributes else one.dn


def _verdict(report: CompareReport) -> str:
    if report.equal:
        return "equal"
    if report.equal_but_for:
        return f"NOT compared in {', '.join(report.equal_but_for)}; equal in everything else"
    return "NOT equal"


def _how_to_see(report: CompareReport) -> Iterator[str]:
    """Of attributes that differ because one of the servers hides them."""
    if not report.equal_but_for:
        return
    for one in report.hidden:
        names = ", ".join(one.attributes)
        yield (
            f"{names}: hidden, not missing, as far as can be told without reading it: {one.location} does not show "
            f"it to {one.who}, and every entry has the same entryCSN on both sides."
        )
        yield (
            "  To compare it too, bind as somebody who may read it (--consumer-bind-dn, --consumer-password-file), or "
            f"add this as the first rule of the database on {one.location}: olcAccess: {one.rule}"
        )
