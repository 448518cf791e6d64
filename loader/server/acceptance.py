"""Does the installed slapd accept a configuration? Its own slaptest is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loader import child, log
from loader.server import account, configuration, hidden_config, tools


@dataclass(frozen=True)
class Acceptance:
    """`lines`: all that slaptest said, warnings of an accepted configuration too; passwords are blanked."""

    accepted: bool
    lines: tuple[str, ...]


def slaptest(path: Path) -> Acceptance:
    """Of a slapd.d or slapd.conf; no database is opened (-u). Raises ToolMissing, NoSuchPath, NotPermitted."""
    configuration.require_readable(path)
    text_of, scratch = configuration.file_text, configuration.tools_tmpdir()
    owner = account.of_configuration(path, text_of)
    with hidden_config.readable(path, scratch, text_of, owner) as known:
        how = ("-u", "-F" if path.is_dir() else "-f", str(known))
        uid, gid = (owner.uid, owner.gid) if owner else (0, 0)
        answer = child.ask(tools.server_tool_as(uid, gid, "slaptest", *how))
        lines = (log.redact(line.replace(str(known), str(path))) for line in answer.words)
    return Acceptance(answer.status == 0, tuple(line for line in lines if line.strip()))
