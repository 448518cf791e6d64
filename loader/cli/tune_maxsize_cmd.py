"""`ditseed tune maxsize`."""

from __future__ import annotations

from typing import Any

import click

from loader import units
from loader.cli import access, load_report, options
from loader.cli.load_report import Sampled
from loader.cli.tune_shown import Further, show_settings, taken, target_of, target_options
from loader.cli.written import Share, Size
from loader.errors import UsageProblem
from loader.operations.tune import forecast, maxsize
from loader.server.options import Connection
from loader.sources import location
from loader.sources.sampling import SampleSize


@click.command("maxsize")
@click.option(
    "--maxsize",
    "size",
    type=Size(auto=True),
    help="The new maxsize; `auto` computes it (the default with --apply).",
)
@click.option(
    "--for",
    "source",
    metavar="SOURCE",
    help="LDIF, an export, a database directory or the URI of a server that is to be loaded: builds a sample of it in "
    "a temporary directory, and computes the size from that.",
)
@click.option(
    "--growth",
    type=Share(most=1000.0, zero=True),
    default="50%",
    show_default=True,
    help="With --for: growth to be expected after the load.",
)
@click.option(
    "--sample-size",
    type=Sampled(),
    metavar="N|SHARE",
    help="With --for: entries of the sample, 20000 or 5% (default: 1%, and at least 10,000).",
)
@options.progress_option
@target_options
def maxsize_command(
    size: int | str | None,
    source: str | None,
    growth: float,
    sample_size: SampleSize | None,
    progress_mode: str,
    **given: Any,
) -> None:
    """Show how large each database is and may become; set maxsize.

    The recommendation is three times the bytes in use, in whole GiB, and never less than what is configured. With --for
    it is the sum of what the load takes and the room that slapd needs beside it.

    \b
    Examples:
      ditseed tune maxsize --config /etc/ldap/slapd.conf
      ditseed tune maxsize --config /etc/ldap/slapd.d --for /srv/export --growth 20% --apply
      ditseed tune maxsize --config /etc/ldap/slapd.d --for ldap://provider -D cn=reader,dc=example,dc=com -y /root/pw
      ditseed tune maxsize -H ldapi:/// -Y EXTERNAL -b dc=example,dc=com --maxsize 250G --apply
    """
    apply, as_json, suffix, wished = taken(given)
    if source is None:
        options.refuse_given(("growth", "sample_size"), "--for")
    provider = None if source is None else _provider(source, given)
    with target_of(given, apply) as target:
        found = maxsize.standings(target, suffix)
        load = None
        if source is not None:
            database = target.config.database(suffix)
            progress = options.progress_of(progress_mode)
            wanted = sample_size or SampleSize()
            load = forecast.plan(target, database, source, wanted, growth, progress, provider)
            if size in (None, "auto"):
                size = load.recommended if wished or size else None
        outcome = (
            maxsize.change_maxsize(target, suffix, size, apply)
            if wished or size is not None
            else None
        )
    more = [] if load is None else [Further("load", load, lambda: load_report.show_plan(load))]
    show_settings(target, found, outcome, as_json, _MAXSIZE, map(_maxsize_row, found), more)


def _provider(source: str, given: dict[str, Any]) -> Connection | None:
    """Of a server that is to be loaded; the account is one of that server."""
    if location.locate(source, *location.Kind).kind is not location.Kind.SERVER:
        return None
    if given["config_path"] is None:
        raise UsageProblem(
            reason=f"--for {source} is for --config; -D, -y and -Y are then of an account at that server"
        )
    options.keep_strongest(given, ("config_path", "uri"))
    asked = {**given, "uri": source}
    given.update(dict.fromkeys(("uri", "bind_dn", "mechanism")))
    return access.connection_of(asked)


_MAXSIZE = ("suffix", "maxsize", "map size", "used", "file", "on disk", "disk free", "recommended")


def _maxsize_row(one: maxsize.MapUsage) -> list[str]:
    sizes = (
        one.maxsize,
        one.map_size,
        one.used,
        one.apparent,
        one.allocated,
        one.free,
        one.recommended,
    )
    return [one.suffix, *("-" if count is None else units.size(count) for count in sizes)]
