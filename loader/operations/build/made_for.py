"""What decides how entries are stored, as one checksum: a run does not go on under another configuration or slapd."""

from __future__ import annotations

import xxhash

from loader.config import Config, Database
from loader.errors import NotProven
from loader.operations.build import proven
from loader.operations.build.options import BuildOptions
from loader.schema import definitions, effects
from loader.server import version

# Of cn=config: about who may do what.
_INDIFFERENT = ("olcaccess", "olclimits", "olcrootpw", "olcsyncrepl")


def made_for(config: Config, database: Database, options: BuildOptions) -> str:
    """Of the slapd that is installed, the schema, and the settings of the database that its data depend on; of all
    settings where the native engine does not follow them."""
    try:
        settings: object = proven.settings(config, database, options)
    except NotProven:
        settings = [one for one in sorted(config.settings.items()) if one[0][1] not in _INDIFFERENT]
    deciding = (version.release(), settings, definitions(config, ()), effects(config, database))
    return xxhash.xxh3_128_hexdigest(repr(deciding).encode())
