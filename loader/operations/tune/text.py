"""Changing a slapd.conf: the lines of one setting, checked with slaptest before the new file is put in place."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loader import slapd_conf
from loader.config import Config
from loader.operations.tune.directory import require_only
from loader.operations.tune.plan import Plan
from loader.server import configuration, configuration_write
from loader.storage import rewrite, temporary


@contextmanager
def prepare_text(config: Config, plan: Plan) -> Iterator[tuple[str, Callable[[], None]]]:
    """The diff, and what puts the changed file in place (slapd.conf itself, or a file that it includes)."""
    # One look at each file: what is compared is what was edited.
    text_of = functools.cache(configuration.file_text)
    texts = slapd_conf.edited(config.path, plan.database.suffix, plan.changes, text_of)
    _check(config, plan, slapd_conf.inlined(config.path, texts, text_of))

    def publish() -> None:
        for path, text in texts.items():
            rewrite.rewrite(path, _encoded(text_of(path) or ""), _encoded(text))

    yield (
        "".join(_difference(path, text_of(path) or "", new) for path, new in texts.items()),
        publish,
    )


def _check(config: Config, plan: Plan, whole: str) -> None:
    """Let slapd's tools read the whole changed text, from a scratch file."""
    with temporary.directory("tune", configuration.tools_tmpdir()) as place:
        trial = Path(place, config.path.name)
        descriptor = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_encoded(whole))
        found = configuration_write.check_text(trial, config.path, plan.changes)
    require_only(config, found, plan)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _difference(path: Path, old: str, new: str) -> str:
    """Without lines around: they may hold a rootpw."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, str(path), f"{path} (changed)", n=0))
