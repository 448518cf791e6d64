"""`ditseed clone`: copies a database directory, while slapd is running or not."""

from __future__ import annotations

from pathlib import Path

from loader import standard
from loader.cli.options import DryRun, Shown
from loader.cli.report import show_report, tell_report
from loader.declared import declare
from loader.errors import UsageProblem
from loader.operations.options import CloneOptions

_PIPE = Path("-")


@declare("clone")
def command(options: CloneOptions, shown: Shown, dry_run: DryRun = False) -> None:
    """Copy the database in directory SOURCE into directory TARGET, while slapd is running or not.

    The copy is a consistent snapshot, and takes only the space in use, even if the apparent size of the file
    is larger. TARGET must not be in use. An interrupted command leaves TARGET unchanged; give it again.

    TARGET - sends the copy to stdout, SOURCE - receives it from stdin, for example through ssh. Each block
    has a checksum, and after a broken stream only the rest needs to be sent.

    \b
    A running server's database to a directory on a spare disk:
      ditseed clone /var/lib/ldap /srv/spare/ldap
    The space that this would take:
      ditseed clone /var/lib/ldap /srv/spare/ldap --dry-run
    Replace an older copy, and leave out the free pages:
      ditseed clone /var/lib/ldap /srv/spare/ldap --compact --replace --verify pages
    To another host, and resume after a broken stream (the receiver prints the token):
      ditseed clone /var/lib/ldap - | ssh ldap2 ditseed clone - /var/lib/ldap
      ditseed clone /var/lib/ldap - --skip TOKEN | ssh ldap2 ditseed clone - /var/lib/ldap
    The same without the free pages:
      ditseed clone /var/lib/ldap - --compact --tmp /srv/tmp | ssh ldap2 ditseed clone - /var/lib/ldap
    """
    sends, receives = options.target == _PIPE, options.source == _PIPE
    is_piped = sends or receives
    if sends:
        standard.reserve_output()
    reasons = {
        "SOURCE or TARGET must be a directory": sends and receives,
        "--reflink always is for a clone from directory to directory": is_piped and options.reflink == "always",
        "--compact must be given on the sending side": options.compact and receives,
        "--dry-run works on the receiving side, or for a clone into a directory": sends and dry_run,
        "--tmp is for --compact with TARGET -": options.scratch is not None and not (options.compact and sends),
        "--skip is for a copy that is sent to stdout (TARGET -)": options.token is not None and not sends,
    }
    for reason, applies in reasons.items():
        if applies:
            raise UsageProblem(reason=reason)

    from loader.operations import clone as operation

    if sends:
        tell_report(operation.send(options, shown.progress), shown.as_json)
    elif dry_run:
        show_report(operation.plan_pipe(options) if receives else operation.plan(options), shown.as_json)
    else:
        run = operation.receive if receives else operation.clone
        show_report(run(options, shown.progress), shown.as_json)
