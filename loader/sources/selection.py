"""What a consumer holds of its provider's entries: a door to the native core, where entries are selected.

LDIF in, LDIF out (native/select): the filter, the list of attributes, the scope, another suffix, and the glue entries
that slapd's consumer makes for ancestors it does not get."""

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
# What the consumer writes itself where the provider's is not among its attributes (add.c, slap_add_opattrs).
OWN = ("creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp")


def selection(config: Config, database: Database, syncrepl: Syncrepl, *, evaluate: bool) -> Selection:
    """`evaluate`: the filter is not the provider's business, but ours. Raises PartialReplica, NotProven."""
    settings = backmdb.settings(config, database)
    known = schema_of(config, database, settings.attribute_options)
    try:
        return _native.Selection(
            known,
            suffix=database.suffix,
            root_dn=database.root_dn,
            last_mod=settings.last_mod,
            base=syncrepl.searchbase,
            scope=syncrepl.scope,
            filter=syncrepl.filter if evaluate else None,
            attrs=syncrepl.attrs,
            exattrs=syncrepl.exattrs,
            massage=syncrepl.suffixmassage,
        )
    except _native.NativeError as error:
        raise PartialReplica(
            config=config.where,
            rid=syncrepl.rid,
            options=f'filter="{syncrepl.filter}"' if evaluate else "options",
            reason=error.message,
            advice="With --strategy search the provider evaluates the filter, whatever it is."
            if evaluate
            else "Let slapd fill this consumer by itself, or change its syncrepl.",
        ) from error


def select(
    paths: Sequence[Path], entries: Path, glue: Path, chosen: Selection, context_csns: Sequence[str], meter: Meter
) -> Selected:
    """Write what of `paths` the consumer holds to `entries`, and what it makes besides to `glue`; both are on the disk
    when this returns. The suffix's entry gets `context_csns`."""
    with with_counters(meter) as counters:
        return _native.select(
            [str(path) for path in paths], str(entries), str(glue), chosen, list(context_csns), counters
        )


# --- searches --------------------------------------------------------------------------------------------------------
#
# Searches that a server was asked for: which indexes of a database they use, and which they lack. A door to the
# native core, where the lines of the log are read (native/select/src/searches).


def read(
    config: Config, database: Database, logs: Sequence[Path], filters: Sequence[Path], meter: Meter
) -> list[SearchesFound]:
    """Of slapd's logs (loglevel stats), and of files with a filter on each line, as far as there are any of either.

    Raises NotProven where the schema cannot be read, ConfigUnreadable, NoSuchPath, and what is wrong with a compressed
    file.
    """
    settings = backmdb.settings(config, database)
    schema = schema_of(config, database, settings.attribute_options)
    configured = indexes.configured(database.indexes).values()
    with with_counters(meter) as counters:
        return [
            _native.searches(
                paths,
                schema,
                counters,
                filters=of_filters,
                suffix=database.suffix,
                indexes=[(one.attribute, one.kinds) for one in configured],
                substr=settings.substr,
            )
            for paths, of_filters in ((logs, False), (filters, True))
            if paths
        ]
