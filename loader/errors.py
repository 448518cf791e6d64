"""All errors that an operator can see, each with a stable code, an exit status, a message and perhaps a hint.
`bin/make-docs` writes docs/errors.md from this module."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from loader import plain

EXIT_OK = 0
EXIT_DIFFERENT = 1
EXIT_ERROR = 2

# Exit statuses that belong to no single error.
STATUSES = {
    "0": "success",
    "1": "done, but something was rejected or differs (`compare`, `replica verify`), or is not sound (`verify`)",
    "2": "an error without an exit status of its own",
    "3 to 125": "an error with a code; 3: the command line is wrong",
    "128 + n": "ended by signal n: 129 SIGHUP, 130 Ctrl-C, 137 SIGKILL, 141 SIGPIPE (closed pipe), 143 SIGTERM",
}
PLUGINS = "`backup check` and `doctor --check`, monitoring plugins, exit with 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."


class LoaderError(Exception):
    """Base of all errors. Keyword arguments fill the placeholders of `message` (no sentence) and `hint` (sentences)."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = EXIT_ERROR
    message: ClassVar[str] = "{path}: {reason}"
    hint: ClassVar[str] = "{advice}"
    # Replaces `hint` if the error leaves no run that can be resumed.
    hint_without_run: ClassVar[str | None] = None
    retryable: ClassVar[bool] = False
    missing: tuple[Any, ...] = ()  # findings of the dry run that this error ends

    def __init_subclass__(cls, *, code: str, status: int) -> None:
        cls.code, cls.exit_status, cls.hint = code, status, " ".join(cls.hint.split())

    def __init__(self, **facts: object) -> None:
        self.facts = facts = plain.with_operator_names(facts)
        super().__init__(self.message.format(**_shown(facts)))

    @classmethod
    def general_hint(cls) -> str:
        """Returns the hint for `ditseed explain` and the docs: with its placeholders, and with `hint_without_run`."""
        return cls.hint + (f" Verbs that keep no run: {cls.hint_without_run}" if cls.hint_without_run else "")

    def advice(self) -> str:
        """Returns the hint with the facts filled in."""
        hint = self.hint if is_resumable(self) else self.hint_without_run or self.hint
        return hint.format(**_shown(self.facts))

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), **self.facts), ()


# Facts that a message shows with at most 200 characters: they are single values, not sentences.
_SHORTENED = {
    *("base", "dn", "first", "suffix", "value", "who", "names", "known", "offered"),
    *("differences", "attribute", "consumer", "provider"),
}
# Facts that a message shows in full, because the operator needs the whole path, command or text.
_UNSHORTENED = {*("path", "config", "target", "log", "where", "place"), *("advice", "undo", "setting", "rule", "mend")}


def _shown(facts: Mapping[str, object]) -> dict[str, object]:
    """Returns the facts escaped and shortened for a message; `facts` itself stays unchanged."""
    shown: dict[str, object] = {}
    for name, value in facts.items():
        if isinstance(value, int | float):
            shown[name] = value
        elif isinstance(value, tuple):  # lines for the operator to paste into a file or a shell
            shown[name] = "".join(f"\n{plain.shortened(line, plain.WHOLE)}" for line in value)
        elif name in _SHORTENED | _UNSHORTENED:
            shown[name] = plain.shortened(str(value), *([plain.WHOLE] if name in _UNSHORTENED else []))
        else:
            shown[name] = plain.sentence(str(value))
    return shown


_RESUMABLE = "ditseed_goes_on"


def mark_resumable(error: BaseException) -> None:
    """Marks an exception that ended a run if the same command can resume this run."""
    error.__dict__[_RESUMABLE] = True


def is_resumable(error: BaseException) -> bool:
    return _RESUMABLE in error.__dict__


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and its causes. For example, an error in the clean-up may have a signal as its cause."""
    following: BaseException | None = error
    while following is not None:
        yield following
        following = following.__cause__ or following.__context__


def classes() -> list[type[LoaderError]]:
    """Returns all error classes except the base class, sorted by exit status."""
    kinds = [kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, LoaderError)]
    return sorted(set(kinds) - {LoaderError}, key=lambda kind: kind.exit_status)


# --- the command line, files, tools, and the run itself ---


class UsageProblem(LoaderError, code="usage", status=3):
    message = "{reason}"
    hint = "--help after the verb lists its options, with examples."


NO_SECRETS = (
    "Every user of the host can read a password on a command line (ps). Put the password into a file and give -y FILE, "
    "or use -W to be prompted"
)


class NotPermitted(LoaderError, code="storage.not_permitted", status=4):
    message = "no permission to {action} {path}"
    hint = "Run as root (sudo), or as the user who owns it ({owner})."


class NoSuchPath(LoaderError, code="storage.no_such_path", status=5):
    message = "{path}: no such file or directory"
    hint = "Check the path and its spelling; nothing was changed."


FULL = "no space left on its file system"  # `lack` of NoSpace if the number of missing bytes is unknown
FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


class NoSpace(LoaderError, code="storage.no_space", status=6):
    message = "{path}: {lack}"
    hint = "Free space on that file system, or use another file system; nothing was changed."


class ReadOnly(LoaderError, code="storage.read_only", status=15):
    message = "{path} is on a file system that is mounted read-only"
    hint = "Choose another path, or remount (mount -o remount,rw); dmesg shows whether a disk error caused the mode."


class OutputNotEmpty(LoaderError, code="storage.not_empty", status=16):
    message = "{path} is not empty, and its contents were not written by `ditseed {made_by}`"
    hint = "Give a new or an empty directory with -o; nothing was changed."


class ToolMissing(LoaderError, code="tool.missing", status=7):
    message = "{tool} is not installed, or not in PATH"
    hint = "Install {tool}, or add its directory to PATH. Debian has OpenLDAP's tools in slapd and ldap-utils."


class ToolUnreachable(LoaderError, code="tool.unreachable", status=102):
    message = "{tool} runs as {account}, which may not enter {place}"
    hint = "Run chmod o+x {place}, or begin PATH with the directory of another {tool}, which {account} may run."


class ToolFailed(LoaderError, code="tool.failed", status=8):
    message = "{tool} ended with status {status}: {reason}"
    hint = "Correct what {tool} reports (the message is its last output), then run the same command again."


class Locked(LoaderError, code="run.locked", status=9):
    message = "{path} is in use by another ditseed (process {pid})"
    hint = "Wait until that process has finished, or end it; the lock ends with the process."


class PackageMissing(LoaderError, code="package.missing", status=107):
    message = "{place} needs the Python package {package}, which is not installed"
    hint = "Install it where ditseed is installed: `pip install 'ditseed[{extra}]'`, or the packages {packages}."


class RemoteFailed(LoaderError, code="remote.failed", status=108):
    message = "{place}: {reason}"


class RemoteLocked(LoaderError, code="remote.locked", status=109):
    message = "{place} has been in use by a ditseed on {host} (process {pid}) since {made}"
    hint = """Wait until that process has finished. If it or its host is gone for good, the lock lapses {lapse} after
    its last renewal. To continue earlier, remove {place}/{name}, and run the same command again."""


class RemoteFull(LoaderError, code="remote.full", status=115):
    message = "{place}: the server is full ({lack})"
    hint = "Remove old backups (`ditseed backup prune`) or free space there, then run the same command again."


class RemovalRefused(LoaderError, code="remote.removal_refused", status=116):
    message = "{place}: the server does not let this account remove files: {reason}"
    hint = "Run `ditseed backup prune` with an account that may remove files there. New backups are still made."


class RunMismatch(LoaderError, code="run.mismatch", status=10):
    message = "{path} contains a run with other options ({differences})"
    hint = "Give the options of that run to resume it, --restart to start over, or another --run-dir."


class NoRun(LoaderError, code="run.none", status=17):
    message = "{path}: no seeding was started there, or its state is kept elsewhere"
    hint = "Give the options of the `replica seed` command: --config or --consumer, -b, --run-dir."


class StepTimeout(LoaderError, code="run.timeout", status=12):
    message = "step {step} made no progress for {silent} (allowed {allowed}: {why})"
    hint = "The same command resumes here; --timeout {step}=SECONDS allows more time."
    hint_without_run = "The same command starts over."


class SystemFailed(LoaderError, code="storage.failed", status=13):
    hint = "The operating system reported this error. Check the disk (dmesg), then run the same command again."


def of_system(error: OSError, about: object) -> SystemFailed:
    """Returns an OSError as a LoaderError. If the OSError has no file name, the message names `about`."""
    is_named = isinstance(error.filename, str | bytes)  # after os.listdir(DESCRIPTOR), `filename` is a number
    path = os.fsdecode(error.filename) if is_named else about
    return SystemFailed(path=path, reason=error.strerror or error)


class LibldapMissing(LoaderError, code="tool.no_libldap", status=96):
    message = "python-ldap and libldap, which ditseed needs, cannot be loaded: {reason}"
    hint = "Install the distribution's python3-ldap; docs/installation.md shows how a virtual environment finds it."


class NotInstalled(LoaderError, code="package.incomplete", status=105):
    message = "this installation of ditseed is not complete: {reason}"
    hint = "In a checkout, run bin/setup, or wait until it has finished; elsewhere, install ditseed again."


class CatalogueDamaged(LoaderError, code="run.damaged", status=14):
    message = "{path}: the log of this run cannot be read: {reason}"
    hint = "Start over with --restart. If that fails too, check the disk."


class ChangedSince(LoaderError, code="run.changed_since", status=87):
    message = (
        "this command made {path} on {finished}, and another process has written to it since "
        "({then} entries then, {now} now); nothing was changed"
    )
    hint = "This is expected if slapd uses the file. To build it again, stop slapd and add --restart (and --replace)."


class DirectoryUnsafe(LoaderError, code="storage.directory_unsafe", status=18):
    message = "{path} {reason}"
    hint = """ditseed keeps its own files only in directories in which no other account can create files. If ditseed ran
    under another account before, use that account, or remove the directory. For --run-dir, --tmp, TMPDIR and similar,
    give a directory of this account to which no other account can write; for --tmp and TMPDIR, /tmp with its sticky bit
    is good enough."""


class FileUnsafe(LoaderError, code="storage.file_unsafe", status=19):
    message = "{path} is {kind}, not an ordinary file"
    hint = "ditseed wrote nothing to it. Find out who created it, remove it, and run the same command again."


class StripesImpossible(LoaderError, code="storage.stripes", status=121):
    message = "no volume can be striped like that: {reason}"
    hint = "Choose another --stripe-size or --stripes, or leave them out; nothing was changed."


class DisksUnequal(LoaderError, code="storage.disks_unequal", status=122):
    message = "the disks are of unequal size, so striping leaves unused: {lost}"
    hint = "Give disks of one size, or add --unequal to leave that space unused; nothing was changed."


class DiskInUse(LoaderError, code="storage.disk_in_use", status=123):
    message = "{path} {reason}"
    hint = "Give another disk, or remove what is on this one (umount, pvremove, wipefs); nothing was changed."


class VolumeTooSmall(LoaderError, code="storage.volume_too_small", status=124):
    message = "{reason}"
    hint = "Give more or larger disks, or another --fs where that is the limit; nothing was changed."


class MigrationRefused(LoaderError, code="storage.migration", status=125): ...


class Cancelled(LoaderError, code="cancelled", status=130):
    message = "stopped by {signal}"
    hint = "The same command resumes here."
    hint_without_run = "The same command starts over."


class Internal(LoaderError, code="internal", status=70):  # EX_SOFTWARE of sysexits(3)
    message = "internal error: {what}"
    hint = "This is a bug in ditseed. Please report it with the file {path}; check it first, as it may name entries."


# --- slapd's configuration ---

# Prefix of attribute names that no schema file defines -> the slapd module that defines them.
_MODULES = {"pwd": "ppolicy", "memberof": "memberof", "audit": "accesslog", "oath": "otp", "authtimestamp": "lastbind"}


def modules(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields each prefix of `names` that a slapd module defines, and the configuration that loads the module."""
    lower = [name.lower() for name in names]
    for prefix, module in _MODULES.items():
        if any(name.startswith(prefix) for name in lower):
            yield prefix, f"a module: `moduleload {module}`, and `overlay {module}` in the database"


class ConfigUnreadable(LoaderError, code="config.unreadable", status=20):
    message = "{path}: slapd's own tools cannot read this configuration: {reason}"
    hint = "Correct the configuration until `slaptest` accepts it; nothing was changed."

    def advice(self) -> str:
        if "unrecognized database type" not in str(self.facts["reason"]).lower():
            return super().advice()
        return (
            "If the configuration is not for the first OpenLDAP in PATH, name the tools of its OpenLDAP, for example "
            "DITSEED_TOOLS='env PATH=/opt/openldap/sbin:/usr/bin:/bin'. Otherwise load the module of that "
            "database (`moduleload back_mdb`, and its modulepath)."
        )


class ConfigValue(LoaderError, code="config.value", status=80):
    message = "{config}: {attribute} has the value '{value}': {reason}"
    hint = "Correct the value until `slaptest -u` accepts the configuration; nothing was changed."


class SettingRefused(LoaderError, code="config.setting_refused", status=119):
    message = "{config}: {entry} has {attribute}, {reason}"
    hint = "{advice} Nothing was changed."


class NoSuchSuffix(LoaderError, code="config.no_such_suffix", status=21):
    message = "{config}: no mdb database with suffix {suffix} (it has: {known})"
    hint = "Give one of these suffixes with -b, or the configuration of another server with --config."


class ManySuffixes(LoaderError, code="config.many_suffixes", status=22):
    message = "{config}: more than one mdb database ({known})"
    hint = "Choose one with -b SUFFIX."


class NotMdb(LoaderError, code="config.not_mdb", status=23):
    message = "{config}: the database of {suffix} is {backend}, not mdb"
    hint = "ditseed writes back-mdb databases; change the configuration to `database mdb` first."


class SchemaMissing(LoaderError, code="config.schema_missing", status=24):
    message = "the configuration {config} does not know {names}"
    hint = "Load the schema that defines them into the server's configuration, then run the same command again."

    def advice(self) -> str:
        """Returns the hint, and the configuration of slapd modules that define some of the names."""
        names = re.findall(r"(?:^|, )([^,;\s]+)", str(self.facts["names"]))
        more = (f" Names that begin with {prefix} come with {source}." for prefix, source in modules(names))
        return f"{super().advice()}{''.join(more)}"


class ConfigNotEditable(LoaderError, code="config.not_editable", status=25):
    hint = "{advice}{lines}"


class MaxsizeTooSmall(LoaderError, code="config.maxsize_too_small", status=26):
    message = "maxsize {maxsize} of {suffix} is too small: the data needs about {needed}"
    hint = "Give a larger size ({enough}), or `auto` to compute it; `ditseed tune maxsize` shows the present sizes."


class ConfigHidden(LoaderError, code="config.hidden", status=27):
    message = "{uri}: {who} may not read cn=config ({reason})"
    hint = "Run as root on the server with -H ldapi:/// -Y EXTERNAL, or give -D with cn=config's root DN, and -y."


class ConfigRefused(LoaderError, code="config.refused", status=28):
    message = "{path}: slapd does not accept this {attribute}: {reason}"
    hint = "Correct the value that slapd names; nothing was changed."


class ServerRunning(LoaderError, code="config.server_running", status=29):
    message = "slapd (process {pid}) runs on {path}: {reason}"


class SyncreplUnreadable(LoaderError, code="config.syncrepl", status=84):
    message = "{where}: syncrepl: {reason}"
    hint = "Correct that option (slapd.conf(5)): every option can decide which data a consumer replicates."


class SyncreplsDiffer(LoaderError, code="config.syncrepls_differ", status=85):
    message = "{config}: the syncrepl values of {suffix} (rid {rids}) select different entries or attributes"
    hint = "ditseed cannot merge them. Give -H with the provider URI of the value that the replica must follow."


class PartialReplica(LoaderError, code="replica.partial", status=86):
    message = "{config}: the consumer's syncrepl (rid {rid}) has {options}: {reason}"


# --- a server that is reached over LDAP ---


class ServerDown(LoaderError, code="server.down", status=30):
    message = "{uri}: cannot reach the server: {reason}"
    hint = "Check that slapd is running there and its port is reachable; without -H, ldap.conf names the server."
    retryable = True


class BadCredentials(LoaderError, code="server.bad_credentials", status=31):
    message = "{uri}: the server refused the bind as {who}: {reason}"


class AccountClosed(LoaderError, code="server.account_closed", status=103):
    message = "{uri}: the account {who} cannot be used: {reason}"
    hint = "{advice}{commands}"


class Referred(LoaderError, code="server.referral", status=104):
    message = "{uri}: {operation}: the server does not do this, and refers to {provider}"
    hint = "The server is a replica, or does not have that entry: give -H with the URI in its referral."


class KerberosFailed(LoaderError, code="server.kerberos", status=77):
    message = "{uri}: Kerberos: {reason}"


class NoMechanism(LoaderError, code="server.no_mechanism", status=78):
    message = "{uri}: cannot bind with SASL mechanism {mechanism}: {reason}"
    hint = """Give -Y with a mechanism that the server offers ({offered}). For each, this host needs a plugin of
    Cyrus SASL (Debian: libsasl2-modules for SCRAM and others, libsasl2-modules-gssapi-mit for GSSAPI)."""


class TooWeak(LoaderError, code="server.too_weak", status=79):
    message = "{uri}: the bind as {who} is too weak: {reason}"
    hint = "Encrypt the connection (-ZZ, ldaps://), or bind with a security layer (-Y GSSAPI, -O minssf=56)."


class NoSuchBase(LoaderError, code="server.no_such_base", status=32):
    message = "{uri}: there is no entry {base}, or access control hides it from {who}"
    hint = "Check -b (suffixes of the server: {known}), and whether that account may read the entry (olcAccess)."


class LimitTooLow(LoaderError, code="server.limit_too_low", status=33):
    message = "{uri}: {limit} of {who} is too low to read all entries ({reason})"
    hint = """Raise the limit for this identity only. On OpenDJ, in the account's entry: ds-rlim-size-limit,
    ds-rlim-lookthrough-limit and ds-rlim-time-limit 0, ds-privilege-name unindexed-search; on 389 Directory Server:
    nsSizeLimit, nsLookThroughLimit and nsTimeLimit -1. On OpenLDAP, paste this into a shell of root on the server's
    host, then give the same command again: {commands}"""


class ServerRefused(LoaderError, code="server.refused", status=34):
    message = "{uri}: {operation}: {reason}"
    hint = "The server sent this message; its log has more (for slapd, set loglevel stats)."


class NoWriteAccess(LoaderError, code="server.no_write_access", status=76):
    message = "{uri}: {who} may not add entries below {where}: {reason}"
    hint = "Bind as that database's root DN (-D, -y), or begin its access rules with: olcAccess: {rule}"


class TlsFailed(LoaderError, code="server.tls", status=35):
    message = "{uri}: TLS failed: {reason}"


class ConnectionLost(LoaderError, code="server.connection_lost", status=36):
    message = "{uri}: the connection broke: {reason}"
    hint = "The same command resumes and reads only the missing parts."
    hint_without_run = "Check the server's log; the same command starts over."
    retryable = True


class ServerSilent(ConnectionLost, code="server.silent", status=99):
    """The server did not answer in time. ditseed may try another server, but not this server again."""

    hint = "Check whether the server is running or overloaded; the same command resumes."
    hint_without_run = "Check whether the server is running or overloaded, then run the same command again."


class NotLdap(LoaderError, code="server.not_ldap", status=93):
    message = "{uri} does not answer in LDAP: {reason}"
    hint = "Check the host and the port in -H: an LDAP server must listen there (389, or 636 for ldaps://)."


class SchemaUnreadable(LoaderError, code="server.schema", status=94):
    message = "{uri}: cannot parse an attribute type in the server's schema ({place}): {definition}"
    hint = "Correct that definition on the server; ditseed needs it to know which attributes to export or add."


class NoContextCSN(LoaderError, code="server.no_context_csn", status=37):
    message = "{where}: no contextCSN for {suffix}"
    hint = "{advice}{commands}"


class NotInSync(LoaderError, code="server.not_in_sync", status=38):
    message = "{consumer} has not caught up with {provider} within {waited}: {state}"


# --- LDIF, templates, and the entries in them ---


class LdifTruncated(LoaderError, code="ldif.truncated", status=40):
    message = "{path}: the file ends in the middle of a record (line {line}): {reason}"
    hint = "Copy the file again; if it is complete and lacks only the last newline, append a newline."


class LdifSyntax(LoaderError, code="ldif.syntax", status=41):
    message = "{path}, line {line}: {reason}"
    hint = "Correct the file there (RFC 2849); if it was copied, compare it with its source."


class LdifUnreadable(LoaderError, code="ldif.unreadable", status=42):
    hint = "Check that the file is complete and readable on this host."


class LdifEncoding(LoaderError, code="ldif.encoding", status=81):
    message = "{path}: {reason}; LDIF is UTF-8 without a byte order mark (RFC 2849)"
    hint = """Convert it to UTF-8: `iconv -f UTF-16 -t UTF-8 IN > OUT`; to remove a byte order mark: `sed
    '1s/^\\xEF\\xBB\\xBF//' IN > OUT`."""


class IncludeRefused(LoaderError, code="ldif.include", status=83):
    message = "{path}, line {line}: {reason}"
    hint = "Give both files on the command line in loading order, or use `ditseed build --allow-file-urls`."


class MissingParents(LoaderError, code="ldif.missing_parents", status=43):
    message = "{count} parent entries are missing; the first is {first}"
    hint = """Add them to the LDIF, or export from a base that contains them. If a database lacks them, export it
    (`ditseed export`), add them to the LDIF, and build a new database from that (`ditseed build`)."""


class ManifestBroken(LoaderError, code="manifest.broken", status=44):
    hint = "Make the export or backup again. To read LDIF files that you have changed, name the files one by one."


class EmptyInput(LoaderError, code="ldif.empty", status=45):
    message = "{path}: no entries"
    hint = """Check that this is the right file, directory or base, and that the bind DN may read the entries of the
    server. A database without entries needs no migration: slapd creates a new database."""


class EntryRefused(LoaderError, code="build.entry_refused", status=46):
    message = "{dn} was refused: {reason}"
    hint = "Correct that entry in the LDIF ({where}) and build again{way_out}; nothing was changed."


class AllRejected(LoaderError, code="build.all_rejected", status=101):
    message = "{path}: all {rejected} entries were rejected, the first of them {dn}: {reason}"
    hint = "Check --config and -b; the entries are in {rejects}, each with its reason. Nothing was changed."


class EntriesLost(LoaderError, code="build.entries_lost", status=47):
    message = "{read} entries read, but {written} are in the database"
    hint = "The target was not changed; please report this, with {log}."


class NotProven(LoaderError, code="build.not_proven", status=48):
    message = "the native engine cannot guarantee the same database as slapadd: {reason}"
    hint = """Give --engine slapadd: then slapadd writes the database, more slowly; nothing was changed. Omit --memory,
    --jobs, --tmp and --allow-file-urls then, and --max-rejects and --rejects, because slapadd stops at the first entry
    that it refuses. Instead of `ditseed migrate`: `ditseed export SOURCE -o - | ditseed build - --engine slapadd`."""


class GlueRefused(LoaderError, code="build.glue", status=75):
    message = "the glued databases of {suffix}: {reason}"
    hint = "{advice} Nothing was changed."


class TooManyEntries(LoaderError, code="build.too_many_entries", status=49):
    hint = "Split the tree among several databases; nothing was changed."


class TemplateError(LoaderError, code="template.bad", status=61):
    hint = "Correct the template; docs/templates.md describes what it may contain."


class NoSuchTemplate(LoaderError, code="template.no_such", status=62):
    message = "there is no template {name}"
    hint = "Give the name of a template of ditseed ({known}), or the path of your own file."


class NothingToLearn(LoaderError, code="template.nothing_to_learn", status=74):
    message = "{reason}"
    hint = "Learn from a tree of at least a few hundred entries."


class AddRefused(LoaderError, code="add.entry_refused", status=64):
    message = "{dn} was refused: {reason} ({rejected} refused, {added} added)"


class AddLost(LoaderError, code="add.entries_lost", status=65):
    message = "{read} entries were read, but the outcome of only {settled} is known"
    hint = "Compare the server with the LDIF (ditseed compare), and please report this, with {where}."


class SettingNotRestored(LoaderError, code="add.setting_not_restored", status=66):
    message = "{what} of {suffix} could not be restored: {reason}"
    hint = "When the server is reachable, run: {undo}. The next `ditseed add` or `replica seed` there does the same."


# --- LMDB databases, their copies and backups ---


class NotLmdb(LoaderError, code="mdb.not_lmdb", status=50):
    message = "{path}: not an LMDB database of OpenLDAP ({reason})"
    hint = "Check that this is slapd's olcDbDirectory. If so, the file is damaged: use another copy or a backup."


class MadeOtherwise(LoaderError, code="mdb.made_otherwise", status=113):
    message = "{path}: made with another configuration than {config}: {reason}"
    hint = "{advice} Nothing was changed."


class MapFull(LoaderError, code="mdb.map_full", status=51):
    message = "{path}: the database has reached its map size of {map_size}"
    hint = "Raise maxsize (--maxsize auto, or `ditseed tune maxsize --apply`); the target was not changed."


class TargetNotEmpty(LoaderError, code="mdb.target_not_empty", status=52):
    message = "{path} already contains {what}"


class TargetInUse(LoaderError, code="mdb.in_use", status=53):
    message = "{path} is open in another process{process}"
    hint = "Stop the slapd that uses it first: systemctl stop slapd, or its container."


class LockUnused(LoaderError, code="mdb.lock_unheeded", status=110):
    message = "{path}: {reason}, so nothing keeps slapd from reusing pages while they are read"
    hint = "lock.mdb was removed while slapd ran. Restart slapd (systemctl restart slapd), and run the command again."


class MdbDamaged(LoaderError, code="mdb.damaged", status=54):
    hint = "Do not use this file; use another copy or backup."


class NoEntry(LoaderError, code="mdb.no_entry", status=59):
    message = "{path}: there is no entry {dn}"
    hint = """Check the DN (-b, --dn) or the filter; without -b, `ditseed export` reads everything and reports the
    suffix. Entries of a glued database are in its own files and backups. An entry that was deleted before a backup was
    made is only in older backups (`ditseed backup list`)."""


class NotStampable(LoaderError, code="mdb.not_stampable", status=55):
    message = "{path}: cannot set contextCSN of {suffix}: {reason}"
    hint = "If `ditseed verify` finds the database damaged, make it again from the source."


class IndexesUnknown(LoaderError, code="verify.not_proven", status=69):
    message = "the indexes cannot be rebuilt for comparison: {reason}"
    hint = "Use --verify tree, which checks everything but the indexes and needs no configuration."


class ReadersFull(LoaderError, code="mdb.readers_full", status=57):
    message = "{path}: all reader slots are taken"
    hint = "mdb_stat -rr frees the slots of dead processes; if all are in use, raise maxreaders for slapd."
    retryable = True


class NoRepository(LoaderError, code="backup.no_repository", status=120):
    message = "{path}: there is no backup repository"
    hint = "Mount the file system that holds it, or correct -R. For a new repository, create it first: `{command}`."


class MdbBusy(LoaderError, code="mdb.busy", status=58):
    message = "{path}: no snapshot could be taken in {tries} attempts, because slapd writes too fast"
    hint = "Run the same command again when slapd receives fewer writes."
    retryable = True


class StreamBroken(LoaderError, code="clone.stream_broken", status=67):
    retryable = True


class ReaderGone(LoaderError, code="export.reader_gone", status=82):
    message = "{path}: the process that was reading the {what} ended before the {what} was complete"
    hint = "Look for the reason in that process's messages. The same pipeline starts over."


class StreamRefused(LoaderError, code="clone.stream_refused", status=68):
    hint = "Omit --skip to send the whole copy, and use the same version of ditseed on both sides."


class NoReflink(LoaderError, code="mdb.no_reflink", status=73):
    message = "{path}: the file system cannot share blocks with {target}"
    hint = "Omit `--reflink always` to copy the blocks: only files of one xfs or btrfs file system can share blocks."


class OtherFormat(LoaderError, code="mdb.other_format", status=56):
    message = "{path} has LMDB data format {found}, but {who} needs format {needed}"
    hint = "OpenLDAP 2.4-2.6 (format 1) and 2.7 (format 3) cannot share files. Use `ditseed migrate`."


class MdbProtected(LoaderError, code="mdb.protected", status=100):
    message = "{path} is an environment of LMDB 1.0 with {what}, which ditseed does not read"
    hint = "Use slapcat of the OpenLDAP that wrote it, or `ditseed export -H` from its server."


class NoSuchBackup(LoaderError, code="backup.no_such", status=60):
    message = "{path}: no backup {name}"
    hint = "Give the ID of a backup that `ditseed backup list` shows."


class BackupFromFuture(LoaderError, code="backup.from_future", status=90):
    message = "{path}: {name} is dated {made}, later than now, so ditseed cannot tell which backup is the latest"
    hint = "Set the clock, or give a backup from `ditseed backup list` instead of `latest`."


class LatestBroken(LoaderError, code="backup.latest_broken", status=111):
    message = "{path}: the latest backup{when}, {name}, cannot be used: its manifest {reason}"


class SetIncomplete(LoaderError, code="backup.set_incomplete", status=117):
    message = "{path}: {name} belongs to a set with {missing}, which does not exist any more"
    hint = """Restore each database by itself (`ditseed backup restore ID`), or another set: `ditseed backup list`
    shows the backups, `ditseed backup show ID` the other members of its set."""


class NoCommonMoment(LoaderError, code="backup.no_common_moment", status=118):
    message = "{path}: within {seconds} s, no two snapshots of this accesslog and of {suffix} had the same last write"
    hint = "Run the same command again when fewer entries are deleted, or back up each database by itself (-b SUFFIX)."


class BackupEncrypted(LoaderError, code="backup.encrypted", status=114):
    message = "{path}: the backup is encrypted, and {reason}"
    hint = "Give --identity FILE with the secret key of a recipient, which `ditseed backup show` lists."


class BackupDamaged(LoaderError, code="backup.damaged", status=63):
    hint = "Restore another backup (`ditseed backup list` shows them); nothing was changed."


class LogUnsuitable(LoaderError, code="backup.log_unsuitable", status=106):
    message = "changes of {suffix} cannot be replayed: {reason}"
    hint = "{advice} Without --until, the backup is restored as it is."


class LogIncomplete(LoaderError, code="backup.log_incomplete", status=11):
    message = "the log cannot be replayed to {until}: {reason}"
    hint = "{advice} --accept-gaps restores the changes that the log has. Nothing was changed."


# --- seeding and refreshing a replica ---


class HiddenFromAccount(LoaderError, code="seed.hidden", status=88):
    message = "{uri}: {what}"
    hint = """To let the account read everything, begin the access rules of the provider's database with this one
    (slapd.access(5)): olcAccess: {rule}. To make a replica without the hidden data, give --allow-hidden.{commands}"""


class NotAsStored(LoaderError, code="seed.not_as_stored", status=89):
    message = "{uri}: {what}"
    hint = """A replica must hold the stored values, and a search on this server returns others. Read the entries from
    the provider's database: --strategy clone, or --strategy ldif with the output of slapcat or of `ditseed export
    DATABASE-DIRECTORY`. To make a replica of the values that the search returns, give --allow-hidden."""


class OtherTree(LoaderError, code="server.other_tree", status=97):
    message = "{uri} is not a replica of {other}: {reason}"
    hint = "Repeat -H only for providers that replicate the same whole tree to each other."


class ReplicasApart(LoaderError, code="server.replicas_apart", status=98):
    message = "after {seconds} s, none of {uris} has received all changes of the others"
    hint = "Check the replication between them; the same command resumes once one of them has caught up."


class TreeRestless(LoaderError, code="server.tree_restless", status=39):
    message = "containers below {base} were renamed during each of {passes} attempts"
    hint = "Run the same command again when nobody is renaming subtrees; ditseed keeps the entries that it has read."


class SharedUuid(LoaderError, code="server.shared_uuid", status=112):
    message = "{first} and {dn} share the entryUUID {uuid}"
    hint = """Replication cannot tell these two entries apart. Delete one of them on the provider and add it again, so
    that it gets a new entryUUID. To copy both unchanged, export the database directory (`ditseed export
    DATABASE-DIRECTORY`), and load that export with `ditseed build`."""


class NotAReplica(LoaderError, code="seed.is_consumer", status=71):
    message = "{where}: {suffix} is already a consumer: syncrepl writes to it, and slapd lets no other client write"
    hint = """Save the olcSyncrepl values (ldapsearch shows them), remove the attribute from the database's entry,
    seed, and add the values again. Command that removes the attribute: {undo}"""


class ReplicaNotEmpty(LoaderError, code="seed.not_empty", status=72):
    message = "{where}: {suffix} holds {what}"


class RefreshRefused(LoaderError, code="refresh.refused", status=91):
    message = "{path}: cannot refresh the database: {reason}"
    hint = "{advice} Nothing was changed."


class RefreshUseless(LoaderError, code="refresh.useless", status=92):
    message = "{uri} is sending more than half of all entries again ({sent} of {held})"
    hint = "Seed the replica again (ditseed replica seed --replace), which is faster. Nothing was changed."


class ProviderNotPrepared(LoaderError, code="seed.provider_not_prepared", status=95):
    message = "{uri}: {suffix} was prepared, but a consumer would still be sent {answer}: {why}"
    hint = """Configure the provider as docs/catch-up.md describes, or run the same command without
    --prepare-provider."""
