"""Checks on a few entries, before hours of work, what an account may read and write on a slapd, and whether searches
return the entries as they are stored.

The check uses filters. A filter is true, false or undefined (RFC 4511, 4.5.1.7), and it is undefined for an attribute
that the account may not search (`test_presence_filter`). So the filter "has the returned attributes and no others" is
true only if the returned attributes are exactly the stored ones: overlays add attributes to the result, but slapd
evaluates filters on the stored entry.

Other clients may change the entry in the meantime. So a filter that is not true counts only if the entry is the same
before and after the filters.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import ldap
import ldap.filter
from ldap.schema import AttributeType, SubSchema
from msgspec import Struct

from loader import dn, overlays
from loader.config import Config, Database
from loader.errors import LimitTooLow, LoaderError, NoSuchBase, NoWriteAccess, ServerRefused
from loader.overlays import Overlay
from loader.server.session import Attributes, Entries, Session, words_of

# Attributes that a replica needs but that access rules often hide, as in the examples of slapd.access(5) and of the
# manuals of Kerberos and Samba.
SECRETS = (
    "userPassword",
    "pwdHistory",
    "krbPrincipalKey",
    "sambaNTPassword",
    "sambaLMPassword",
    "authPassword",
    "oathSecret",
)
_SEARCHING = 2.0  # seconds; after that, no other search of the whole tree (for containers or secrets) is begun
_OF_EACH = 2  # entries per secret and per container; also the number of checks of a container without a visible child
_FIRST = 200  # entries read at first; one of them is checked for each parent and set of object classes
_CONTAINERS = 30  # containers whose children are read
_LOOKS = 40  # maximum number of checked entries
_TRIES = 10  # an entry that other clients keep changing is checked at least so many times, and for _PATIENCE
_PATIENCE = 1.0  # seconds
_MARKS = ("entrycsn", "entryuuid")  # one of them differs if the entry was changed, or if another entry has its DN now
NOT_CHECKED = {name.lower() for name in (*overlays.COMPUTED, overlays.CONTEXT_CSN)}
_KIND = ("objectClass",)

Relevance = Callable[[str], bool] | None  # returns True for an attribute that matters; None: all attributes matter


class VisibilityReport(Struct):
    """Findings in the sample. `who`: the account as in slapd's access rules. `hidden`, `computed`: map an attribute to
    the DN of an entry that has it. `below`: entries with hidden children. `readable`: attributes that the account may
    read but not search. `distorting`: overlays of the database that change search results. `shows_overlays`: the server
    shows the database's overlays."""

    who: str = ""
    hidden: dict[str, str] = {}
    below: list[str] = []
    computed: dict[str, str] = {}
    readable: set[str] = set()
    distorting: list[Overlay] = []
    shows_overlays: bool = False


def compare_sample(server: Session, base: str, is_relevant: Relevance = None) -> VisibilityReport | None:
    """Checks a sample of the entries below `base`: compares the returned attributes with the filters that match.
    Returns None if the server is not a slapd or shows no schema."""
    root = server.read("", ["objectClass", "subschemaSubentry"])
    if b"OpenLDAProotDSE" not in root.get("objectclass", []):
        return None
    entry_dn = root.get("subschemasubentry", [b"cn=Subschema"])[0].decode()
    kinds = ["attributeTypes", "objectClasses"]
    entry: Attributes = {}
    with suppress(NoSuchBase, ServerRefused):
        entry = server.read(entry_dn, kinds, "(objectClass=subschema)")
    if not all(entry.get(kind.lower()) for kind in kinds):
        return None
    schema = SubSchema({kind: entry.get(kind.lower()) for kind in kinds})
    overlay_names = overlays_of(server, server.context_of(base))
    who = server.who_am_i()
    report = VisibilityReport(f'dn.exact="{who}"' if who else "anonymous", shows_overlays=bool(overlay_names))
    report.distorting = overlays.overlays_that_change_searches(overlay_names)
    for name in _sample(server, base, schema, report):
        with suppress(NoSuchBase):  # the entry was deleted meanwhile
            _EntryCheck(server, schema, name, report, is_relevant).check()
    report.hidden = {name: example for name, example in report.hidden.items() if name not in report.readable}
    return report


def overlays_of(server: Session, base: str) -> list[str]:
    """Returns the overlays that cn=Monitor (slapd-monitor(5)) or cn=config shows for the database with this suffix."""
    same = ldap.filter.filter_format("(namingContexts=%s)", [base])
    of_suffix = ldap.filter.filter_format("(olcSuffix=%s)", [base])
    with suppress(LoaderError):  # cn=Monitor is not configured, or this account may not read it
        monitored = server.find("cn=Databases,cn=Monitor", same, ["monitorOverlay"], ldap.SCOPE_ONELEVEL)
        if shown := [value.decode() for _, entry in monitored for value in entry.get("monitoroverlay", [])]:
            return shown
    with suppress(LoaderError):  # this account may not read cn=config
        return [
            value.decode().partition("}")[2] or value.decode()
            for database, _ in server.find("cn=config", of_suffix)
            for _, entry in server.find(database, "(olcOverlay=*)", ["olcOverlay"], ldap.SCOPE_ONELEVEL)
            for value in entry.get("olcoverlay", [])
        ]
    return []


def _sample(server: Session, base: str, schema: SubSchema, report: VisibilityReport) -> list[str]:
    """Returns the DNs to check: entries with secrets, then one entry per parent and set of object classes. Adds the
    containers without a visible child to `report`."""
    seconds = 0.0  # spent on searches of the whole tree

    def first(limit: int, where: str) -> Entries:
        """Returns the first matching entries; fewer if the time is up. slapd measures time in whole seconds."""
        nonlocal seconds
        if seconds >= _SEARCHING:
            return []
        start = time.monotonic()
        try:
            return server.first(base, limit, _KIND, where, 1)[0]
        except (LimitTooLow, ServerRefused):
            return []
        finally:
            seconds += time.monotonic() - start

    sampled = [*server.first(base, _FIRST, _KIND)[0]]
    for container, _ in first(_CONTAINERS, "(hasSubordinates=TRUE)"):
        with suppress(NoSuchBase):  # the container was moved or deleted meanwhile
            entries = server.first(container, _OF_EACH + 1, _KIND)[0]
            if len(entries) == 1 and _shows_no_child(server, container):
                report.below.append(container)
            sampled += entries
    kinds: dict[tuple[str, frozenset[bytes]], str] = {}
    for name, entry in sampled:
        classes = frozenset(value.lower() for value in entry.get("objectclass", []))
        kinds.setdefault((dn.key(dn.parent(name)), classes), name)
    secrets = [secret for secret in SECRETS if schema.get_obj(AttributeType, secret) is not None]
    holders = _holders(server, secrets, first)
    return list(dict.fromkeys([*holders, *kinds.values()]))[:_LOOKS]


def _holders(server: Session, secrets: list[str], first: Callable[[int, str], Entries]) -> list[str]:
    """Returns the DNs of entries with these attributes. Presence filters find them even if the account may not read the
    values. Each search is for all attributes that no entry has shown yet, because a search without a match evaluates
    every entry of the tree."""
    holders: list[str] = []
    while secrets and (entries := first(_OF_EACH, f"(|{''.join(f'({secret}=*)' for secret in secrets)})")):
        names = [name for name, _ in entries]
        rest = [secret for secret in secrets if not any(_has(server, name, secret) for name in names)]
        if rest == secrets:
            break  # other clients have changed the entries meanwhile
        holders, secrets = holders + names, rest
    return holders


def _has(server: Session, name: str, attribute: str) -> bool:
    with suppress(NoSuchBase):
        return server.matches(name, f"({attribute}=*)")
    return False


def _shows_no_child(server: Session, container: str) -> bool:
    """Returns True if none of several checks shows a child. A single check can mislead: the last child may just have
    been deleted, and other children may be added and deleted."""
    one_level = ldap.SCOPE_ONELEVEL
    return all(
        server.matches(container, "(hasSubordinates=TRUE)")
        and len(server.first(container, 2, _KIND)[0]) == 1
        and not (  # ordinary searches omit subentries (RFC 3672)
            server.offers_subentries(container)
            and server.find(container, "(objectClass=*)", scope=one_level, subentries=True)
        )
        for _ in range(_OF_EACH)
    )


class _EntryCheck(Struct):
    """Compares the returned attributes of one entry with the results of filters on it."""

    server: Session
    schema: SubSchema
    name: str
    report: VisibilityReport
    is_relevant: Relevance

    def check(self) -> None:
        """Checks the entry. An entry that changes all the time is skipped: the sample has similar entries."""
        candidates: set[str] | None = None
        start = time.monotonic()
        for number in itertools.count():
            if number >= _TRIES and time.monotonic() - start > _PATIENCE:
                return  # the entry changed during every check
            entry = self.server.read(self.name)
            computed, readable, hidden = self._contradicted(entry, candidates)
            candidates = {*computed, *readable, *hidden}
            if not candidates or _is_same(entry, self.server.read(self.name)):
                break
        self.report.readable.update(readable)
        for examples, names in ((self.report.computed, computed), (self.report.hidden, hidden)):
            for name in names:
                if self.is_relevant is None or self.is_relevant(name):
                    examples.setdefault(name, self.name)

    def _contradicted(self, entry: Attributes, only: set[str] | None) -> tuple[list[str], list[str], list[str]]:
        """Returns three lists of the attributes for which a filter and the returned values disagree: computed, readable
        but not searchable, hidden. `only`: names to check (None: all)."""
        types = {name.partition(";")[0] for name in entry} - NOT_CHECKED
        present = sorted(self._lineage(name)[0] for name in types)
        shown = {alias.lower() for name in types for alias in self._lineage(name)}
        absent = [name for name in self._possible_attributes(entry) if name.lower() not in shown]
        if only is not None:
            present, absent = ([name for name in names if name in only] for names in (present, absent))
        doubtful = self._untrue(present, "({}=*)")
        computed = [name for name in doubtful if self.server.matches(self.name, f"(!({name}=*))")]
        # Not returned, but (!(NAME=*)) is not true: the account may not search NAME, or NAME exists and is hidden.
        hidden = self._untrue(absent, "(!({}=*))")
        return computed, [name for name in doubtful if name not in computed], hidden

    def _untrue(self, names: Sequence[str], claim: str) -> list[str]:
        """Returns the attributes for which the filter `claim` is not true of this entry, found by bisection."""
        if not names or self.server.matches(self.name, f"(&{''.join(map(claim.format, names))})"):
            return []
        if len(names) == 1:
            return list(names)
        half = len(names) // 2
        return [*self._untrue(names[:half], claim), *self._untrue(names[half:], claim)]

    def _possible_attributes(self, entry: Attributes) -> list[str]:
        """Returns the attributes that the entry's object classes allow, and all operational attributes."""
        classes = [value.decode() for value in entry.get("objectclass", [])]
        must, may = self.schema.attribute_types(classes, raise_keyerror=0)
        of_classes = [*must.values(), *may.values()]
        # python-ldap: usage 0 is userApplications.
        types = (self.schema.get_obj(AttributeType, oid) for oid in self.schema.listall(AttributeType))
        operational = [each for each in types if each is not None and each.usage]
        named = (each for each in (*of_classes, *operational) if getattr(each, "names", ()))
        names = dict.fromkeys(each.names[0] for each in named if not each.obsolete)
        return [name for name in names if name.lower() not in NOT_CHECKED]

    def _lineage(self, name: str) -> list[str]:
        """Returns the names of an attribute type, the preferred one first, then those of its supertypes, such as `name`
        for `cn` (RFC 4512, 2.5.1)."""
        names, each = list[str](), self.schema.get_obj(AttributeType, name)
        while each is not None:
            names += each.names or (each.oid,)
            each = self.schema.get_obj(AttributeType, each.sup[0]) if each.sup else None
        return [*names, name]


def _is_same(before: Attributes, after: Attributes) -> bool:
    """Returns whether both readings have equal _MARKS and attribute names. If `before` lacks one of _MARKS, returns
    whether the readings are equal."""
    if not all(mark in before for mark in _MARKS):
        return before == after
    return before.keys() == after.keys() and all(before[mark] == after.get(mark) for mark in _MARKS)


# An access level or privileges (slapd.access(5)), and the subset that permits adding entries.
_LEVEL = re.compile(
    r"(?:real)?(?:self)?(?:none|disclose|auth|compare|search|read|write|add|delete|manage|[=+-][0mwazdxscr]*)",
    re.IGNORECASE,
)
_WRITES = re.compile(r"(?:real)?(?:self)?(?:write|add|manage|[=+].*[mwa].*)", re.IGNORECASE)
_CONTROLS = ("stop", "continue", "break")
_EXACT = re.compile(r"dn(?:\.(?:exact|base))?=(.+)", re.IGNORECASE)


def require_below(server: Session, parent: str) -> None:
    """Raises NoWriteAccess if slapd refuses to add entries below the existing entry `parent`. Changes nothing.

    For a rename, slapd checks the write permission for the parent's children before it looks up the child (mdb_modrdn
    of OpenLDAP 2.4 to 2.6). So the rename of a missing entry fails with noSuchObject if the account may write, and with
    insufficientAccess if it may not."""
    missing = f"cn=ditseed-{uuid.uuid4()},{parent}"

    def rename_refusal(handle: ldap.ldapobject.LDAPObject) -> str | None:
        """Renames the missing entry. Returns slapd's refusal; None if slapd only reports that the entry is missing."""
        try:
            handle.rename_s(missing, missing.partition(",")[0])
        except (ldap.INSUFFICIENT_ACCESS, ldap.UNWILLING_TO_PERFORM, ldap.STRONG_AUTH_REQUIRED) as error:
            return words_of(error)
        except ldap.LDAPError:
            pass  # no such entry; servers other than slapd check for the entry before the permission
        return None

    if (reason := server.call(f"rename {missing}", rename_refusal, parent)) is not None:
        raise _refused(server, parent, reason)


def require_may_add_first_entry(server: Session, config: Config, database: Database) -> None:
    """Raises NoWriteAccess if olcAccess of an empty database certainly forbids this account to add the first entry. The
    rules in cn=config are evaluated, because there is no parent entry for the test of `require_below`."""
    who = server.who_am_i()
    if database.root_dn is not None and dn.key(database.root_dn) == dn.key(who):
        return
    # In slapd's order: the database's rules, then the frontend's.
    holders = [database.entry_dn, *(name for name, _ in config.entries if "{-1}frontend" in name.lower())]
    if not _might_write((words for name in holders for words in config.reader(name).words("olcAccess")), who):
        reason = f"no rule of olcAccess lets it write, and it is not the root DN ({database.root_dn})"
        raise _refused(server, database.suffix, reason)


def _might_write(rules: Iterable[list[str]], who: str) -> bool:
    """Returns False if `who` certainly may not write to any entry except its own. `rules`: words of olcAccess."""
    for words in rules:
        parts: list[list[str]] = [[]]  # the words of the `to` part, then the words of each `by` clause
        for word in words:
            if word.lower() == "by":
                parts.append([])
            else:
                parts[-1].append(word)
        what, *clauses = parts
        attributes = ",".join(word.partition("=")[2].lower() for word in what if "attrs=" in word.lower())
        if attributes and not {"entry", "children"} & set(attributes.split(",")):  # an add needs access to these two
            continue
        may = _may(clauses, who)
        if may or (may is False and what == ["to", "*"]):
            return may
    return False


def _may(clauses: Iterable[Sequence[str]], who: str) -> bool | None:
    """Returns True if the rule may permit writing, False if it denies writing, None if the next rule applies."""
    for clause in clauses:
        matches = _matches(clause, who)
        if matches is not False and any(_WRITES.fullmatch(word) for word in clause[1:]):
            return True
        control = clause[-1].lower()
        if matches and control != "continue":
            return None if control == "break" else False
    return False


def _matches(clause: Sequence[str], who: str) -> bool | None:
    """Returns True if the clause applies to `who`, False if it does not, None if that cannot be determined."""
    subject = clause[0].lower()
    if exact := _EXACT.fullmatch(clause[0]):
        matches = dn.key(exact[1].strip('"')) == dn.key(who)
    else:
        known = {"self": False, "realself": False, "anonymous": not who, "users": bool(who), "*": True}
        if subject not in known:
            return None
        matches = known[subject]
    is_plain = all(_LEVEL.fullmatch(word) or word in _CONTROLS for word in clause[1:])
    return None if matches and not is_plain else matches


def _refused(server: Session, where: str, reason: str) -> NoWriteAccess:
    who = server.who_am_i()
    rule = f'{{0}}to * by dn.exact="{who or "DN"}" manage by * break'
    return NoWriteAccess(uri=server.uri, who=who or "anonymous", where=where, reason=reason, rule=rule)
