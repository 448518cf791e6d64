"""Partial replicas: consumers whose syncrepl fetches only some of the provider's entries or attributes.

The consumer's syncrepl defines the selection. A seeding has an additional step `select` before the build
(strategies.py). It drops the entries and attributes that syncrepl would not have fetched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from loader import syncrepl
from loader.config import Config, Database
from loader.defaults import ENGINES
from loader.errors import PartialReplica
from loader.server.options import Connection, Search
from loader.sources import selection
from loader.sources.ldap import Narrowing, Server
from loader.sources.selection import Selection
from loader.syncrepl import Syncrepl

_ITSELF = "Let slapd fill this consumer by itself, or change its syncrepl."
_BY_SEED = (
    "Seed a second, empty database by --strategy search with the same configuration, and compare that with this one "
    "(ditseed compare)."
)


class Partial(Struct, frozen=True, dict=True):
    """The syncrepl that makes the consumer's `database` a partial replica."""

    config: Config
    database: Database
    syncrepl: Syncrepl

    @cached_property
    def unevaluated(self) -> Selection:
        """The selection for entries to which the provider has already applied the filter."""
        return selection.selection(self.config, self.database, self.syncrepl, evaluate=False)

    @cached_property
    def evaluated(self) -> Selection:
        """The selection for LDIF with all entries. Raises PartialReplica if only slapd can evaluate the filter."""
        return selection.selection(self.config, self.database, self.syncrepl, evaluate=True)

    def narrowing(self) -> Narrowing:
        """Returns base, filter, scope and attributes of the search on the provider."""
        syncrepl, attributes = self.syncrepl, tuple(self.unevaluated.request())
        return Narrowing(syncrepl.searchbase, syncrepl.filter, syncrepl.scope, attributes, syncrepl.exattrs)

    def sides(self, provider: Connection, consumer: Connection) -> tuple[Server, Server, tuple[str, ...]]:
        """Returns the searches of a comparison (provider, consumer), and the attributes to ignore. The consumer's
        search omits glue entries, which slapd adds above selected entries."""
        syncrepl = self.syncrepl
        if "suffixmassage" in syncrepl.narrowing(self.database.suffix):
            reason = "both hold the same entries under different DNs, which are not compared"
            raise _refused(self, ("suffixmassage",), reason, _BY_SEED)
        there = replace(self.narrowing().restrict(Search(syncrepl.searchbase)), where=syncrepl.filter)
        here = Search(self.database.suffix, f"(!{selection.GLUE})", attributes=there.attributes)
        servers = replace(provider, base=syncrepl.searchbase), replace(consumer, base=self.database.suffix)
        return Server(servers[0], there), Server(servers[1], here), tuple(self.unevaluated.left_out())


def of(
    config: Config, database: Database, strategy: str, provider: str | None, engine: str = ENGINES[0]
) -> Partial | None:
    """Returns the partial replica; None for a whole replica. Raises PartialReplica if `strategy` or `engine` cannot
    select entries as the syncrepl does."""
    consumer = syncrepl.of_database(config, database, provider)
    if consumer is None:
        return None
    partial = Partial(config, database, consumer)
    if consumer.type == "dirsync" or consumer.syncdata == "changelog":
        option = "type=dirSync" if consumer.type == "dirsync" else "syncdata=changelog"
        raise _refused(partial, (option,), "its provider is not OpenLDAP, and has no contextCSN", _ITSELF)
    options = consumer.narrowing(database.suffix)
    if not options:
        return None
    if len(database.suffixes) > 1 or not database.suffix:
        reason = "the database has several suffixes, or the empty one, and slapd's consumer glues below a single one"
        raise _refused(partial, options, reason, _ITSELF)
    if "attrsonly" in options:
        reason = "slapd's own consumer ends with a failed assertion at the first entry without values"
        raise _refused(partial, ("attrsonly",), reason, "Remove attrsonly from the syncrepl.")
    if engine == "slapadd" and consumer.schemachecking and {"attrs", "exattrs"} & set(options):
        reason = "with schemachecking=on slapd refuses entries without the attribute of their RDN, and slapadd adds it"
        raise _refused(partial, options, reason, "Use --engine native.")
    if strategy == "clone":
        reason = "a copy of a database holds every entry and every attribute"
        raise _refused(partial, options, reason, "Use --strategy search, or ldif.")
    # The selection is computed now, so that a filter that the core cannot evaluate is refused before any work.
    _ = partial.evaluated if strategy == "ldif" else partial.unevaluated
    return partial


def _refused(partial: Partial, options: Sequence[str], reason: str, advice: str) -> PartialReplica:
    facts = {"config": partial.config.where, "rid": partial.syncrepl.rid}
    return PartialReplica(**facts, options=", ".join(options), reason=reason, advice=advice)
