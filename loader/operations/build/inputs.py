"""The LDIF that a build reads: in which order, whether it is whole, what contextCSN it brings."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader import csn, exports, ldif
from loader.defaults import ENV_EPOCH
from loader.errors import EmptyInput, NoContextCSN
from loader.ldif import ScanResult
from loader.operations import schema
from loader.operations.build.options import BuildOptions
from loader.operations.publish import TargetDatabase
from loader.progress import Meter
from loader.run.log import Facts
from loader.schema import definitions, synonyms
from loader.server import compiled_schema
from loader.sources import names, synthetic

NO_CONTEXT = "Give -w if the LDIF is the output of slapcat, or use that of `ditseed export`, which always has one."


@contextmanager
def opened(options: BuildOptions) -> Iterator[list[Path]]:
    """LDIF in loading order, of which some may be read: of a tree it is made meanwhile."""
    if options.tree is None:
        yield options.files.paths()
        return
    with options.tree.stream() as descriptor:
        yield [Path(f"/dev/fd/{descriptor}")]


def scan(options: BuildOptions, place: TargetDatabase, meter: Meter) -> Facts:
    """Read it all once: is every file whole, how many entries, which names do they use?"""
    with options.source.reading(meter) as read:
        found = ldif.scan(names(read), meter)
    exports.require_entries(options.inputs, found.entries)
    if not found.entries:
        raise EmptyInput(path=", ".join(map(str, options.inputs)))
    return {
        "entries": found.entries,
        "bytes": found.bytes,
        "attributes": found.attributes,
        "object_classes": found.object_classes,
        "first_dn": found.first_dn,
        "claimed": _claimed(options, place, found),
    }


def require_schema(place: TargetDatabase, scan: Facts, scratch: Path) -> None:
    """Does the configuration know every attribute and object class? Raises NoSuchSuffix, SchemaMissing."""
    if place.superior is None:  # a part of a glued tree was chosen by its suffix
        schema.require_suffix(place, scan["first_dn"])
    schema.require_known(place, scan["attributes"], scan["object_classes"], scratch)


def aliases(place: TargetDatabase, scan: Facts) -> dict[str, str]:
    """Names of attributes in the LDIF that have another one there -> that one."""
    known = definitions(place.config, compiled_schema.read(place.config))
    return dict(synonyms(known, scan["attributes"]))


def input_time(options: BuildOptions) -> str:
    """As in createTimestamp: what the options say, or the age of the newest input: the same input, the same database.

    A stream is as old as the present, a tree of no age. SOURCE_DATE_EPOCH (reproducible-builds.org) goes before all.
    """
    if options.now is not None:
        return options.now
    seconds = os.environ.get(ENV_EPOCH)
    if seconds and seconds.isdigit():
        moment = float(seconds)
    elif options.tree is not None:
        return synthetic.MOMENT
    else:
        found = options.files.paths()
        ages = [path.stat().st_mtime for path in found if path.is_file()]
        known = bool(ages) and len(ages) == len(found)
        moment = min([time.time(), max(ages)] if known else [time.time()])
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(moment))


def _claimed(options: BuildOptions, place: TargetDatabase, found: ScanResult) -> list[str] | None:
    """The contextCSN to stamp and not to exceed; None: all is loaded as it stands."""
    if not options.seeding:
        return None
    if options.claimed is not None:
        return list(options.claimed)
    known = csn.by_server(found.context_csns)
    if not known and options.write_context:
        known = dict(found.max_csns)
    if not known:
        where, suffix = options.inputs[0], place.database.suffix
        raise NoContextCSN(where=where, suffix=suffix, advice=NO_CONTEXT, commands=())
    return sorted(known.values())
