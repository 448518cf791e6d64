"""`ditseed build`: builds a database from LDIF, offline."""

from __future__ import annotations

from typing import Annotated

from loader.cli.options import RecordedRun, note
from loader.cli.report import show_report
from loader.cli.trees import TreeInput
from loader.declared import Argument, declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations.options import DeclaredBuild


@declare("build")
def command(
    inputs: Annotated[tuple[str, ...], Argument("[LDIF]...")], tree: TreeInput, options: DeclaredBuild, run: RecordedRun
) -> int:
    """Load LDIF (plain, .zst, .gz, an export directory, - for stdin) into the database directory of a configuration.

    slapd must not be running on that database. The new database is built beside the old one, checked, and renamed into
    place, so the directory always has a complete database, old or new. Its owner and mode follow the directory and the
    configuration.

    With --from, generates the tree of a template under the database's suffix while it is loaded, without LDIF on disk.
    The same command makes the same file.

    Databases that are glued to the database of -b (subordinate) are built as well, each from its own entries; all are
    checked before the first is put into place. With --target or -g, only the database of -b is built, and entries of
    the others are rejected.

    Entries that slapd would not accept are written to the file of rejects, with the reason; if there are more than
    --max-rejects, the build fails and the target stays as it was. Exit status 1: done, with rejects.

    \b
    Examples:
      ditseed build people.ldif.zst --config /etc/ldap/slapd.d -b dc=example,dc=com
      ditseed build /srv/export --config /etc/ldap/slapd.d --replace --maxsize auto
      ditseed build --from accounts -n 30000000 --config /etc/ldap/slapd.d --maxsize auto
    """
    from loader.operations import build as operation

    files, synthetic = tree.input(inputs, None)
    building = operation.BuildOptions(**(vars(options) | {"inputs": files, "tree": synthetic}))
    if run.dry_run:
        facts = operation.plan(building, run.progress)
    else:
        facts = operation.build(building, run.progress, run.timeouts_of(operation.STEPS), run.restart)
    note(facts)
    show_report(facts, run.as_json)
    return EXIT_DIFFERENT if facts.get("rejected") else EXIT_OK
