"""Selects the part of a provider's entries that a consumer stores.

The native core (native/select) applies the filter, the attribute list, the scope and suffixmassage to LDIF. Like
slapd's consumer, it creates glue entries for ancestors that are not selected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loader import _native, backmdb, indexes
from loader._native import SearchesFound, SearchGroup, Selected, Selection
from loader.config import Config, Database
from loader.errors import PartialReplica
from loader.ldif import with_counters
from loader.progress import Meter
from loader.sinks.mdb import schema_of
from loader.syncrepl import Syncrepl

__all__ = ["GLUE", "OWN", "SearchGroup", "SearchesFound", "Selected", "Selection", "read", "select", "selection"]

GLUE = "(objectClass=glue)"
# The consumer generates these attributes if the provider does not send them (add.c, slap_add_opattrs).
OWN = ("creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp")


def selection(config: Config, database: Database, syncrepl: Syncrepl, *, evaluate: bool) -> Selection:
    """Returns the selection for a syncrepl; with its filter only if `evaluate`. Raises PartialReplica, NotProven."""
    settings = backmdb.settings(config, database)
    schema = schema_of(config, database, settings.attribute_options)
    try:
        return Selection(schema, database.suffix, database.root_dn, settings.last_mod, syncrepl, evaluate=evaluate)
    except _native.NativeError as error:
        raise PartialReplica(
            config=config.where,
            rid=syncrepl.rid,
            options=f'filter="{syncrepl.filter}"' if evaluate else "options",
            reason=error.message,
            advice="With --strategy search the provider evaluates the filter."
            if evaluate
            else "Let slapd fill this consumer by itself, or change its syncrepl.",
        ) from error


def select(
    paths: Sequence[Path], entries: Path, glue: Path, chosen: Selection, context_csns: Sequence[str], meter: Meter
) -> Selected:
    """Writes the selected entries of `paths` to `entries`, and glue entries to `glue`, and syncs both files. The suffix
    entry gets `context_csns`."""
    with with_counters(meter) as counters:
        return chosen.select(paths, entries, glue, context_csns, counters)


# --- searches --------------------------------------------------------------------------------------------------------
#
# The native core reads the log lines of searches (native/select/src/searches). It finds the indexes that the searches
# use and the indexes that they lack.


def read(
    config: Config, database: Database, logs: Sequence[Path], filters: Sequence[Path], meter: Meter
) -> list[SearchesFound]:
    """Reads slapd's logs (loglevel stats), and files with one filter per line. Returns a result for `logs`, then a
    result for `filters`, each only if there are such files. Raises NotProven if the core cannot read the schema;
    ConfigUnreadable, NoSuchPath, and errors of compressed files."""
    settings = backmdb.settings(config, database)
    schema = schema_of(config, database, settings.attribute_options)
    configured = [(index.attribute, index.kinds) for index in indexes.configured(database.indexes).values()]
    with with_counters(meter) as counters:
        return [
            _native.searches(paths, of_filters, schema, (database.suffix, configured, settings.substr), counters)
            for paths, of_filters in ((logs, False), (filters, True))
            if paths
        ]
