"""Defaults, environment variables, the memory and processors that this process may use, and where slapd's tools are."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ENV_STATE_DIR = "DITSEED_STATE_DIR"  # directory for runs, leases, and copies of settings from before `tune`
ENV_TOOLS = "DITSEED_TOOLS"  # command prefix for slapadd, slapcat, ...: "chroot /srv/x", "podman exec ldap"
ENV_EPOCH = "SOURCE_DATE_EPOCH"  # the time that a build uses instead of now, in seconds since 1970
CONFIG_FILE = "~/.config/ditseed/config.toml"  # as help texts show it: ~/.config stands for XDG_CONFIG_HOME
# For links of `ditseed shims`: "original" runs slapd's tools only; "native" uses the native core even for little input.
ENV_SHIM = "DITSEED_SHIM"
ENV_PROFILE = "DITSEED_PROFILE"  # profile in the configuration file, like --profile
ENV_KILL_AT = "DITSEED_KILL_AT"  # tests only: name of the point at which the process kills itself
ENV_STOP_AT = "DITSEED_STOP_AT"  # tests only: comma-separated names of points at which it stops until SIGCONT

RETRIES = 20  # maximum consecutive retries of a piece without any progress
SERVER_PATIENCE = 120.0  # seconds for which a load retries an unreachable server
SILENCE_FACTOR = 20.0  # a pause longer than this factor times the longest earlier pause of the step times out
SILENCE = 300.0  # seconds after which a server that sends no answer is given up
# Minimum seconds after which a pause of a step times out. Exceeds SILENCE, so that a silent server's error comes first.
SILENCE_FLOOR = SILENCE + 60.0
# If an earlier run exceeds one of these limits, a command with other options needs --restart to discard that run.
KEPT_ENTRIES = 20_000  # entries in finished partitions
KEPT_SECONDS = 60.0  # seconds spent on finished steps
COMPRESS = "zstd"
LADDER = ("quick", "pages", "tree", "indexes")  # levels of --verify; each includes the checks of the levels before
LEVELS = ("none", *LADDER[:-1])  # for copies: "indexes" needs a configuration, which a copy lacks
PROBLEMS = 10  # maximum number of problems of each kind in the report of a check
DIFFERENCES = 20  # maximum number of differing entries in the report of a comparison
SHARD_ENTRIES = 1_000_000  # entries in a file of LDIF
STDIN = "-"
ENGINES = ("native", "slapadd")  # programs that write a database; the first is the default
MAXSIZE_FACTOR = 3.0  # maxsize divided by the data's size: room for copy-on-write, growth and long readers

# Attributes that a server computes for each answer and does not store (RFC 3045, RFC 4512 4.2, RFC 5020, X.501). They
# must not be loaded: slapadd 2.6.14 even damages the attributes next to them.
DYNAMIC_ATTRIBUTES = ("entryDN", "subschemaSubentry", "hasSubordinates", "numSubordinates", "numAllSubordinates")


@dataclass(frozen=True)
class Resources:
    """Limits of the core's work. `memory`: bytes. `jobs`: threads. `scratch`: a directory for temporary files."""

    memory: int
    jobs: int
    scratch: Path


def config_file() -> Path:
    """Returns the path of the operator's configuration file (XDG Base Directory Specification)."""
    return _xdg("XDG_CONFIG_HOME", "~/.config") / "config.toml"


def state_dir() -> Path:
    """Returns the directory for files that outlive a run: /var/lib/ditseed for root, else in the user's home."""
    configured = os.environ.get(ENV_STATE_DIR)
    if configured:
        return Path(configured)
    if os.geteuid() == 0:
        return Path("/var/lib/ditseed")
    return _xdg("XDG_STATE_HOME", "~/.local/state")


def _xdg(variable: str, default: str) -> Path:
    directory = os.path.expanduser(os.environ.get(variable) or default)
    # The account of a container may have neither HOME nor an entry in passwd: then / is its home, instead of "~".
    return Path(f"/{directory[2:]}" if directory.startswith("~/") else directory, "ditseed")


CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
CONNECTIONS = 4  # default maximum number of connections to a server

# Controller -> file. In cgroups(7) version 1, each controller has its own hierarchy; version 2 has one, named "" here.
_MEMORY = {"": "memory.max", "memory": "memory.limit_in_bytes"}


def memory() -> int:
    """Returns the bytes of RAM, at most the limit of the control groups."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([host, *(int(text) for text in _limits(_MEMORY) if text.isdigit())])


def sorting_memory() -> int:
    """Returns the default memory for sorting in bytes: a quarter of `memory()`."""
    return memory() // 4


def processors() -> int:
    """Returns how many processors this process may use, within its affinity and the quotas of its control groups."""
    quotas = [_quota(text) for text in _limits({"": "cpu.max"})]
    version_1 = zip(_limits({"cpu": "cpu.cfs_quota_us"}), _limits({"cpu": "cpu.cfs_period_us"}), strict=False)
    quotas += [_quota(f"{quota} {period}") for quota, period in version_1]
    affinity = len(os.sched_getaffinity(0))
    return max(1, min([affinity, *(quota for quota in quotas if quota)]))


def connections() -> int:
    """Returns the default number of connections to a server; few, because each occupies a processor of the server."""
    return min(CONNECTIONS, processors())


def _quota(text: str) -> int:
    """Returns the whole processors in a quota like "200000 100000" (microseconds per period); 0: no limit."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or not int(words[1]):
        return 0
    return max(1, int(words[0]) // int(words[1]))


def _limits(files: dict[str, str]) -> Iterator[str]:
    """Yields the contents of `files` (controller -> file name) in this process's control groups and their parents."""
    groups = (re.findall(r"^\d+:([^:\n]*):(/.*)$", text, re.MULTILINE) for text in _content(_OWN))
    for controllers, path in itertools.chain.from_iterable(groups):
        for controller in controllers.split(","):
            if controller in files:
                top = CGROUPS / controller
                group = top / path.lstrip("/")
                for directory in (group, *group.parents):
                    if directory == top or top in directory.parents:
                        yield from _content(directory / files[controller])


def _content(path: Path) -> Iterator[str]:
    try:
        yield path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return


# --- slapd's tools ----------------------------------------------------------------------------------------------------

SHIM_MARK = b"# A link of `ditseed shims`"  # the second line of a link's program
# Searched after PATH, because the PATH of an ordinary user or of cron often lacks sbin.
_SBIN = (
    "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/openldap/sbin:/usr/local/libexec:/usr/libexec/openldap:/opt/symas/sbin"
    ":/opt/symas/bin:/opt/bitnami/openldap/sbin:/opt/zimbra/openldap/sbin"
)


def find_tool(name: str) -> str | None:
    """Returns the path of the first program `name` in PATH or _SBIN; skips links of `ditseed shims`. The program may be
    NAME.distrib of dpkg-divert(1), which starts the server unless argv[0] is `name` or the call has -T."""
    if name == "slapd" and (slapcat := find_tool("slapcat")):
        # A slapd in PATH may be of another release; upstream's slapcat in sbin is a link to its own slapd in libexec.
        beside = os.path.join(os.path.dirname(os.path.realpath(slapcat)), name)
        if os.access(beside, os.X_OK):
            return beside
    for directory in f"{os.environ.get('PATH', os.defpath)}:{_SBIN}".split(":"):
        for path in (os.path.join(directory or ".", each) for each in (name, f"{name}.distrib")):
            if os.path.isfile(path) and os.access(path, os.X_OK) and not is_link(path):
                return path
    return None


def is_link(path: str) -> bool:
    """Returns whether a program is a link of `ditseed shims`."""
    try:
        with open(path, "rb") as file:
            return SHIM_MARK in file.read(512)
    except OSError:  # a program that this account may run but not read
        return False
