"""May this account add entries? Asked without a change, before hours of work.

slapd renames a child only for somebody who may write to the parent's children, and looks at that before it looks for
the child (mdb_modrdn of OpenLDAP 2.4 to 2.6). So the renaming of an entry that is not there ends with noSuchObject for
an account that may write, and with insufficientAccess for one that may not. Nothing of the kind is known of a place
where there is no entry yet: an add is refused or done. There cn=config is looked at, and only what is certain is told.
"""

from __future__ import annotations

import re
import uuid

import ldap

from loader import dn
from loader.config import Config, Database
from loader.errors import NoWriteAccess
from loader.server.session import Session

# A level or privileges with which entries can be added (slapd.access(5)).
_WRITES = re.compile(
    r"(?:self)?(?:write|add|manage)|(?:self)?[=+][mdxscrwaz]*[mwa][mdxscrwaz]*", re.I
)
_EXACT = re.compile(r"dn(?:\.(?:exact|base))?=\"?([^\"]+)\"?", re.I)


def require_below(server: Session, parent: str) -> None:
    """May entries be added below `parent`, which is there? Raises NoWriteAccess for a clear no."""
    nobody = f"cn=ditseed-{uuid.uuid4()},{parent}"
    reason = server.converse(f"rename {nobody}", lambda handle: _refusal(handle, nobody), parent)
    if reason is not None:
        raise _refused(server, parent, reason)


def _refusal(handle: ldap.ldapobject.LDAPObject, name: str) -> str | None:
    """Why an entry that does not exist may not be renamed; None where only that is in the way."""
    try:
        handle.rename_s(name, name.partition(",")[0])
    except (
        ldap.INSUFFICIENT_ACCESS,
        ldap.UNWILLING_TO_PERFORM,
        ldap.STRONG_AUTH_REQUIRED,
    ) as error:
        facts = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        return "; ".join(str(facts[key]) for key in ("desc", "info") if facts.get(key))
    except ldap.LDAPError:
        pass  # it is not there; servers of other makers say so first
    return None


def require_first(server: Session, config: Config, database: Database) -> None:
    """May the first entry of an empty database be added? Raises NoWriteAccess where its rules let nobody do that."""
    who = server.who_am_i()
    if database.root_dn is not None and dn.key(database.root_dn) == dn.key(who):
        return
    rules = _rules(config, database)
    if not any(_grants(rule, who) for rule in rules):
        reason = (
            f"no rule of olcAccess lets it write, and it is not the root DN ({database.root_dn})"
        )
        raise _refused(server, database.suffix, reason)


def _rules(config: Config, database: Database) -> tuple[str, ...]:
    """Those of the database, else of the frontend; none: everybody may read, and nobody write."""
    frontend = next((name for name, _ in config.entries if "{-1}frontend" in name.lower()), "")
    return config.values(database.entry_dn, "olcAccess") + config.values(frontend, "olcAccess")


def _grants(rule: str, who: str) -> bool:
    """Might it let `who` write an entry that is not its own? In doubt: yes."""
    return any(_clause_grants(one, who) for one in re.split(r"\sby\s", rule)[1:])


def _clause_grants(clause: str, who: str) -> bool:
    named, *rest = clause.split()
    exact = _EXACT.fullmatch(named)
    if named.lower() in ("self", "anonymous") or (exact and dn.key(exact[1]) != dn.key(who)):
        return False
    return any(_WRITES.fullmatch(word) for word in rest)


def _refused(server: Session, where: str, reason: str) -> NoWriteAccess:
    who = server.who_am_i()
    subject = f'dn.exact="{who or "DN"}"'
    rule = f"{{0}}to * by {subject} manage by * break"
    facts = {"uri": server.uri, "who": who or "anonymous", "where": where}
    return NoWriteAccess(**facts, reason=reason, rule=rule)
