"""May this account add entries? Asked without a change, before hours of work.

slapd renames a child only for somebody who may write to the parent's children, and looks at that before it looks for
the child (mdb_modrdn of OpenLDAP 2.4 to 2.6). So the renaming of an entry that is not there ends with noSuchObject for
an account that may write, and with insufficientAccess for one that may not. Nothing of the kind is known of a place
where there is no entry yet: an add is refused or done. There cn=config is looked at, and only what is certain is told.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence

import ldap

from loader import dn
from loader.config import Config, Database
from loader.errors import NoWriteAccess
from loader.server.session import Session

# A level, or privileges (slapd.access(5)), and those of them with which entries are added.
_LEVEL = re.compile(
    r"(?:real)?(?:self)?(?:none|disclose|auth|compare|search|read|write|add|delete|manage|[=+-][0mwazdxscr]*)",
    re.IGNORECASE,
)
_WRITES = re.compile(r"(?:real)?(?:self)?(?:write|add|manage|[=+].*[mwa].*)", re.IGNORECASE)
_CONTROLS = ("stop", "continue", "break")
_EXACT = re.compile(r"dn(?:\.(?:exact|base))?=(.+)", re.IGNORECASE)


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
    if not _might_write(_rules(config, database), who):
        reason = (
            f"no rule of olcAccess lets it write, and it is not the root DN ({database.root_dn})"
        )
        raise _refused(server, database.suffix, reason)


def _rules(config: Config, database: Database) -> Iterator[list[str]]:
    """The words of each, those of the frontend last, as slapd has it."""
    frontends = [name for name, _ in config.entries if "{-1}frontend" in name.lower()]
    for name in (database.entry_dn, *frontends):
        yield from config.reader(name).words("olcAccess")


def _might_write(rules: Iterable[list[str]], who: str) -> bool:
    """May `who` write to an entry that is nobody's own? In doubt: yes."""
    for words in rules:
        what, *clauses = _parted(words)
        if _is_of_attributes(what):
            continue
        answer = _answer(clauses, who)
        if answer or (answer is False and what == ["to", "*"]):
            return answer
    return False


def _parted(words: Sequence[str]) -> list[list[str]]:
    """What it is about, and the clauses, each without its `by`."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word.lower() == "by":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _is_of_attributes(what: Sequence[str]) -> bool:
    """And of none of the two (entry, children) that an add is about."""
    named = [word.partition("=")[2].lower().split(",") for word in what if "attrs=" in word.lower()]
    return bool(named) and not {"entry", "children"} & set(named[0])


def _answer(clauses: Iterable[Sequence[str]], who: str) -> bool | None:
    """True: it may grant; False: it ends the search for a rule; None: the next rule is asked."""
    for clause in clauses:
        matches = _matches(clause, who)
        if matches is False:
            continue
        if any(_WRITES.fullmatch(word) for word in clause[1:]):
            return True
        control = clause[-1].lower()
        if matches and control != "continue":
            return None if control == "break" else False
    return False


def _matches(clause: Sequence[str], who: str) -> bool | None:
    """Does it speak of `who`? None where that cannot be told here."""
    named = clause[0].lower()
    exact = _EXACT.fullmatch(clause[0])
    if named in ("self", "realself"):
        return False
    if named == "anonymous" or exact:
        same = not who if exact is None else dn.key(exact[1].strip('"')) == dn.key(who)
    elif named in ("*", "users"):
        same = named == "*" or bool(who)
    else:
        return None
    others = [word for word in clause[1:] if not _LEVEL.fullmatch(word) and word not in _CONTROLS]
    return None if same and others else same


def _refused(server: Session, where: str, reason: str) -> NoWriteAccess:
    who = server.who_am_i()
    subject = f'dn.exact="{who or "DN"}"'
    rule = f"{{0}}to * by {subject} manage by * break"
    facts = {"uri": server.uri, "who": who or "anonymous", "where": where}
    return NoWriteAccess(**facts, reason=reason, rule=rule)
