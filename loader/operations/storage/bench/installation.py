"""The OpenLDAP that is measured: this host's, or one in a root directory of its own, which is entered by chroot."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from loader import child
from loader.errors import UsageProblem
from loader.server import tools

SUFFIX = "dc=example,dc=com"
INDEXES = ("objectClass,entryUUID,entryCSN eq", "uid,cn,sn,mail eq")
_SCHEMAS = ("core", "cosine", "inetorgperson")
# Debian, the Red Hat family, what `make install` and Symas take.
_SCHEMA_PLACES = (
    *("/etc/ldap/schema", "/etc/openldap/schema"),
    *("/usr/local/etc/openldap/schema", "/opt/symas/etc/openldap/schema"),
)
_MODULE_PLACES = (
    *("/usr/lib/ldap", "/usr/lib64/openldap", "/usr/lib/openldap", "/usr/libexec/openldap"),
    *("/usr/local/libexec/openldap", "/opt/symas/lib/openldap"),
)
_ENTRY = 8192  # bytes of maxsize that an entry gets: plenty
_LEAST = 64 << 20
_VERSION = re.compile(r"slapd\w* (?P<number>\d+(?:\.\d+)+)")


class Installation(msgspec.Struct, frozen=True):
    """`root`: "/" for this host's."""

    root: Path = Path("/")

    def command(self, tool: str, *arguments: str) -> list[str]:
        """Raises ToolMissing."""
        if self.root == Path("/"):
            return tools.server_tool(tool, *arguments)
        return ["chroot", str(self.root), "/usr/bin/env", _PATH, tool, *arguments]

    def version(self) -> str:
        """Raises ToolMissing, UsageProblem."""
        answer = child.ask(self.command("slapd", "-VV"))
        found = next(filter(None, map(_VERSION.search, answer.words)), None)
        if found is None:
            said = "; ".join(answer.words[-2:]) or f"exit status {answer.status}"
            raise UsageProblem(reason=f"{self.root}: slapd -VV does not tell its version: {said}")
        return found["number"]

    def configuration(self, backend: str, directory: str, entries: int) -> str:
        """A slapd.conf. `directory`: as slapd sees it. Raises UsageProblem."""
        schemas = self._first(_SCHEMA_PLACES, "core.schema")
        if schemas is None:
            raise UsageProblem(
                reason=f"{self.root}: no core.schema is in {', '.join(_SCHEMA_PLACES)}"
            )
        lines = [f"include {schemas}/{name}.schema" for name in _SCHEMAS]
        modules = self._first(_MODULE_PLACES, f"back_{backend}.*")
        if modules:  # else it is built into slapd, or slapd says that it has none
            lines += [f"modulepath {modules}", f"moduleload back_{backend}"]
        lines += [f"database {backend}", f'suffix "{SUFFIX}"', f'directory "{directory}"']
        lines += [f"index {one}" for one in INDEXES]
        lines += [f"maxsize {max(_LEAST, entries * _ENTRY)}"] if backend == "mdb" else []
        return "\n".join((*lines, ""))

    def _first(self, places: tuple[str, ...], pattern: str) -> str | None:
        return next((one for one in places if [*self.root.glob(f"{one[1:]}/{pattern}")]), None)


_PATH = "PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/libexec:/usr/bin:/bin"
