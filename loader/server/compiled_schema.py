"""The schema that is compiled into the slapd at hand, and into the modules that a configuration loads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from loader import words
from loader.config import Config, Entry
from loader.errors import ConfigUnreadable, ToolFailed
from loader.schema import ROOT
from loader.server import tools
from loader.server.configuration import entries_of, tools_tmpdir
from loader.storage import temporary


def read(source: Config) -> list[Entry]:
    """Raises ConfigUnreadable."""
    if not source.is_directory:  # it was converted just so when it was read
        return [entry for entry in source.entries if entry[0].lower() == ROOT]
    return of_modules(source)


def of_modules(source: Config) -> list[Entry]:
    """Asked of slapcat, which converts a slapd.conf with nothing but the modules. Raises ConfigUnreadable."""
    with temporary.directory("schema", tools_tmpdir()) as place:
        text, converted = Path(place, "slapd.conf"), Path(place, "slapd.d")
        text.write_bytes(os.fsencode("".join(f"{line}\n" for line in _lines(source))))
        converted.mkdir(mode=0o700)
        try:
            found = tools.configuration("-f", str(text), "-F", str(converted))
        except ToolFailed as error:
            raise ConfigUnreadable(path=source.path, reason=error.facts["reason"]) from error
    return [entry for entry in entries_of(found, source.path) if entry[0].lower() == ROOT]


def _lines(source: Config) -> Iterator[str]:
    """The modules in the order in which slapd loads them; each entry may have a path of its own."""
    for name, _ in source.entries:
        found = source.reader(name)
        for path in found.words("olcModulePath"):
            yield _line("modulepath", path)
        for module in found.words("olcModuleLoad"):
            yield _line("moduleload", module)


def _line(keyword: str, said: Sequence[str]) -> str:
    return " ".join([keyword, *map(words.as_line, said)])
