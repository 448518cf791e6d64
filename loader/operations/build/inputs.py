"""The LDIF that a build reads: in which order, whether it is whole, what contextCSN it brings.

Streams are put into files first for an engine that reads its input more than once.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader import csn, exports, ldif, standard, units
from loader.defaults import ENV_EPOCH
from loader.errors import EmptyInput, NoContextCSN
from loader.ldif import ScanResult
from loader.operations import schema
from loader.operations.build.options import BuildOptions
from loader.operations.publish import TargetDatabase
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.schema import definitions, synonyms
from loader.server import configuration
from loader.sources import dit, names
from loader.sources.location import STDIN, is_stream
from loader.storage import files

STEP = "spool"
NO_CONTEXT = "Give -w if the LDIF is the output of slapcat, or use that of `ditseed export`, which always has one."


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
    known = definitions(place.config, configuration.read_compiled_schema(place.config))
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
        return dit.MOMENT
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


def spooled(options: BuildOptions, run: Run) -> BuildOptions:
    """The same, with files in the place of streams: packed, mode 0600, in the run directory. They stay until `remove`,
    so that what is refused can be looked up."""
    if not options.files.streamed:
        return options
    made = run.do(STEP, lambda meter: _spool(options, run, meter))
    inputs = (
        _home(run) / Path(text).name if is_stream(given) else given
        for text, given in zip(made["inputs"], options.inputs, strict=True)
    )
    return dataclasses.replace(options, inputs=tuple(inputs))


def remove(run: Run) -> None:
    """They are loaded."""
    files.remove_tree(_home(run))


def _home(run: Run) -> Path:
    return run.directory / STEP


def _spool(options: BuildOptions, run: Run, meter: Meter) -> Facts:
    home = _home(run)
    files.remove_tree(home)
    home.mkdir(mode=0o700)
    free = units.size(files.free_bytes(home))
    run.progress.say(f"{STEP}: what comes is kept packed in {home} until it is loaded ({free} free)")
    try:
        inputs = [
            _kept(given, home / f"{number}.ldif.zst", meter) if is_stream(given) else given
            for number, given in enumerate(options.inputs, 1)
        ]
    except BaseException:
        files.remove_tree(home)
        raise
    killpoint("spool.middle")
    return {"inputs": [str(path) for path in inputs]}


def _kept(stream: Path, path: Path, meter: Meter) -> Path:
    """Lines are counted as they stand in `path`, where comments are left out and long lines are whole."""
    name = "standard input" if str(stream) == STDIN else str(stream)
    with _opened(stream) as descriptor:
        made = ldif.shard(descriptor, path, (), meter, name)
    if not made.entries:
        raise EmptyInput(path=name)
    return path


@contextmanager
def _opened(stream: Path) -> Iterator[int]:
    if str(stream) == STDIN:
        yield standard.input("the LDIF")
        return
    with files.explained(stream), stream.open("rb", buffering=0) as file:
        yield file.fileno()
