"""`ditseed add`: adds LDIF to a running server."""

from __future__ import annotations

from typing import Annotated

from loader.cli import access
from loader.cli.options import RecordedRun, note
from loader.cli.report import show_report
from loader.cli.trees import TreeInput, TreeSuffix
from loader.declared import Argument, declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations.options import DeclaredAdd


@declare("add")
def command(
    inputs: Annotated[tuple[str, ...], Argument("[LDIF]...")],
    tree: TreeInput,
    server: access.ServerOptions,
    options: DeclaredAdd,
    run: RecordedRun,
    tree_suffix: TreeSuffix = None,
) -> int:
    """Add LDIF (plain, .zst, .gz, an export directory, - for stdin) to a running server.

    Uses LDAP transactions (RFC 5805) where the server supports them, which is many times faster than ldapadd and as
    durable. An entry may precede its parent. Entries that the server refuses are written to the file of rejects, with
    the reason; if there are more than --max-rejects, the load stops. Exit status 1: done, with rejects.

    With --from, generates the tree of a template while it is added.

    After an interruption on either side, give the same command again: it resumes, and adds no entry twice.

    \b
    Examples:
      ditseed add people.ldif.zst -H ldapi:/// -Y EXTERNAL
      ditseed add /srv/export -H ldap://server -D cn=admin,dc=example,dc=com -y /root/admin.pw --on-exists skip
      ditseed add --from people -n 100000 -H ldapi:/// -Y EXTERNAL --nosync
    """
    from loader.operations import add as operation
    from loader.run.log import report_of

    files, synthetic = tree.input(inputs, tree_suffix)
    connection = access.connection_of(server)
    requested = {"connection": connection, "inputs": files, "tree": synthetic}
    adding = operation.AddOptions(**(vars(options) | requested))
    if run.dry_run:
        facts, status = operation.plan(adding, run.progress), EXIT_OK
    else:
        added = operation.add(adding, run.progress, run.timeouts_of(operation.STEPS), run.restart)
        facts, status = report_of(added), EXIT_DIFFERENT if added.rejected else EXIT_OK
    note(facts)
    if not run.dry_run and not run.as_json and added.seconds:
        facts["rate"] = round((added.read - added.before) / added.seconds)
    show_report(facts, run.as_json)
    return status
