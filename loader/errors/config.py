"""Of what slapd is configured to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from loader.errors.base import LoaderError

# Beginnings of names that no schema file defines -> the module of slapd that does.
_MODULES = {"pwd": "ppolicy", "memberof": "memberof", "audit": "accesslog", "oath": "otp", "authtimestamp": "lastbind"}


def modules(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Beginnings of some of the names, and what to configure where slapd has these in a module."""
    lower = [name.lower() for name in names]
    for head, module in _MODULES.items():
        if any(name.startswith(head) for name in lower):
            yield head, f"a module: `moduleload {module}`, and `overlay {module}` in the database"


class ConfigUnreadable(LoaderError):
    code, exit_status = "config.unreadable", 20
    message = "{path}: slapd's own tools cannot read this configuration: {reason}"
    hint = "Correct it until `slaptest` accepts it; nothing was changed."

    def advice(self) -> str | None:
        if "unrecognized database type" not in str(self.facts["reason"]).lower():
            return super().advice()
        return (
            "If it belongs to another OpenLDAP than the first one in PATH, name that one's tools: "
            "DITSEED_TOOLS='env PATH=/opt/openldap/sbin:/usr/bin:/bin', say. Otherwise load the module of that "
            "database (`moduleload back_mdb`, and its modulepath)."
        )


class ConfigValue(LoaderError):
    code, exit_status = "config.value", 80
    message = "{config}: {attribute} has the value '{value}': {reason}"
    hint = "Correct it until `slaptest -u` accepts the configuration; nothing was changed."


class SettingRefused(LoaderError):
    """reason: what the setting does, or that it is unknown."""

    code, exit_status = "config.setting_refused", 119
    message = "{config}: {entry} has {attribute}, {reason}"
    hint = "{advice} Nothing was changed."


class NoSuchSuffix(LoaderError):
    code, exit_status = "config.no_such_suffix", 21
    message = "{config}: no mdb database with suffix {suffix} (it has: {known})"
    hint = "Give one of these suffixes with -b, or the configuration of another server with --config."


class ManySuffixes(LoaderError):
    code, exit_status = "config.many_suffixes", 22
    message = "{config}: more than one mdb database ({known})"
    hint = "Choose one with -b SUFFIX."


class NotMdb(LoaderError):
    code, exit_status = "config.not_mdb", 23
    message = "{config}: the database of {suffix} is {backend}, not mdb"
    hint = "ditseed writes back-mdb databases; change the configuration to `database mdb` first."


class SchemaMissing(LoaderError):
    code, exit_status = "config.schema_missing", 24
    message = "the configuration {config} does not know {names}"
    hint = "Load the schema that defines them into the server's configuration, then run the same command again."

    def advice(self) -> str | None:
        """Names modules, too, in which slapd has some of them."""
        names = re.findall(r"(?:^|, )([^,;\s]+)", str(self.facts["names"]))
        more = (f" Names that begin with {head} come with {how}." for head, how in modules(names))
        return f"{super().advice()}{''.join(more)}"


class ConfigNotEditable(LoaderError):
    code, exit_status = "config.not_editable", 25
    message = "{path}: {reason}"
    hint = "{advice}{lines}"


class MaxsizeTooSmall(LoaderError):
    code, exit_status = "config.maxsize_too_small", 26
    message = "maxsize {maxsize} of {suffix} is too small: the data needs about {needed}"
    hint = "Give a larger size, or `auto` to have it computed (`ditseed tune maxsize` shows the present sizes)."


class ConfigHidden(LoaderError):
    code, exit_status = "config.hidden", 27
    message = "{uri}: {who} may not read cn=config ({reason})"
    hint = (
        "Run the command as root on the server with -H ldapi:/// -Y EXTERNAL, or give -D with the root DN of cn=config "
        "and -y with its password file."
    )


class ConfigRefused(LoaderError):
    code, exit_status = "config.refused", 28
    message = "{path}: slapd does not accept this {attribute}: {reason}"
    hint = "Correct the value that slapd names; nothing was changed."


class ServerRunning(LoaderError):
    code, exit_status = "config.server_running", 29
    message = "slapd (process {pid}) runs on {path}: {reason}"
    hint = "{advice}"


class SyncreplUnreadable(LoaderError):
    code, exit_status = "config.syncrepl", 84
    message = "{where}: syncrepl: {reason}"
    hint = (
        "Correct that option (slapd.conf(5)). ditseed has to understand all of them, because they decide what a "
        "consumer holds."
    )


class SyncreplsDiffer(LoaderError):
    code, exit_status = "config.syncrepls_differ", 85
    message = "{config}: the syncrepl values of {suffix} (rid {rids}) select different entries or attributes"
    hint = (
        "Give -H with the provider URI of one of them: that value then decides what the replica holds. ditseed cannot "
        "merge several providers, as slapd does."
    )


class PartialReplica(LoaderError):
    """`options`: those of syncrepl that make it partial. `advice`: a sentence."""

    code, exit_status = "replica.partial", 86
    message = "{config}: the consumer's syncrepl (rid {rid}) has {options}: {reason}"
    hint = "{advice}"
