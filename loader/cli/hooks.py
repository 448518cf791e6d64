"""Runs commands of the operator when a verb of `backup` has ended: for monitoring, or to pin a backup."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from loader import child, log
from loader.cli import ending
from loader.cli.ending import Ending
from loader.cli.report import tell
from loader.errors import EXIT_OK

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Hooks:
    on_success: Annotated[
        str | None,
        "--on-success COMMAND",
        "Run COMMAND with /bin/sh at the end if all is well. Its environment has DITSEED_VERB, DITSEED_REPO, "
        "DITSEED_BACKUP (IDs), DITSEED_STATUS and DITSEED_ERROR.",
    ] = None
    on_failure: Annotated[str | None, "--on-failure COMMAND", "The same, if the exit status is not 0."] = None


class Outcomes:
    """What the hooks of a verb report of each repository. Those without a result of their own ended as the verb did."""

    def __init__(self, verb: str, hooks: Hooks, repos: Sequence[object]) -> None:
        self._verb, self._hooks = verb, hooks
        self._endings: dict[str, tuple[str, Ending | None]] = {str(repo): ("", None) for repo in repos}
        ending.at_end(self._run)

    def add(self, repo: object, ids: Iterable[str], end: Ending | None = None) -> None:
        self._endings[str(repo)] = (" ".join(ids), end)

    def _run(self, verb_end: Ending) -> None:
        for repo, (ids, own_end) in self._endings.items():
            end = own_end or verb_end
            command = self._hooks.on_success if end.status == EXIT_OK else self._hooks.on_failure
            if command is None:
                continue
            facts = {"VERB": self._verb, "REPO": repo, "BACKUP": ids, "STATUS": str(end.status)}
            facts["ERROR"] = log.redact(f"{end.error.code}: {end.error}") if end.error else ""
            done = child.run_detached(
                ["/bin/sh", "-c", command], {f"DITSEED_{name}": value for name, value in facts.items()}
            )
            tell(*done.stderr_lines)
            if done.status:
                _log.warning("%s ended with exit status %d", command, done.status)
