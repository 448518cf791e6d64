"""Settings of a database: maxsize for now."""

from __future__ import annotations

from loader.config import Config, Database
from loader.errors import ConfigNotEditable
from loader.server import tools
from loader.storage.files import Owner


def apply_maxsize(config: Config, database: Database, size: int) -> None:
    """Set olcDbMaxSize in a slapd.d that no slapd runs on."""
    if not config.is_directory:
        raise ConfigNotEditable(path=config.path, reason="set maxsize by hand")
    change = (
        f"dn: {database.entry_dn}\nchangetype: modify\n"
        f"replace: olcDbMaxSize\nolcDbMaxSize: {size}\n"
    )
    tools.run("slapmodify", "-n0", "-F", str(config.path), stdin=change.encode())
    owner = Owner.of(config.path)
    for path in config.path.rglob("*"):
        owner.give(path)
