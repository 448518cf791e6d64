"""What decides how entries are stored, as one checksum: a run does not go on under another configuration or slapd."""

from __future__ import annotations

import xxhash

from loader.config import Config, Database
from loader.errors import NotProven
from loader.operations.build import proven
from loader.operations.build.options import BuildOptions
from loader.schema import definitions, effects
from loader.server import version

# Of cn=config: set by slapd itself, or about who may do what.
_INDIFFERENT = (
    *("entrycsn", "entryuuid", "modifytimestamp", "modifiersname", "createtimestamp"),
    *("creatorsname", "contextcsn", "olcaccess", "olclimits", "olcrootpw", "olcsyncrepl"),
)


def made_for(config: Config, database: Database, options: BuildOptions) -> str:
    """Of the slapd that is installed, the schema, and the settings of the database that its data depend on; of all
    settings where the native engine does not follow them."""
    try:
        settings: object = proven.settings(config, database, options)
    except NotProven:
        settings = [
            (name, sorted(one for one in values.items() if one[0].lower() not in _INDIFFERENT))
            for name, values in config.entries
        ]
    deciding = (version.release(), settings, definitions(config, ()), effects(config, database))
    return xxhash.xxh3_128_hexdigest(repr(deciding).encode())
