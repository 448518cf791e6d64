"""Defaults, environment variables, and the memory and processors that this process may use: those of the host, within
the limits of its control groups."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ENV_STATE_DIR = "DITSEED_STATE_DIR"  # directory for runs, leases, and copies of settings from before `tune`
ENV_TOOLS = "DITSEED_TOOLS"  # command prefix for slapadd, slapcat, ...: "chroot /srv/x", "podman exec ldap"
ENV_EPOCH = "SOURCE_DATE_EPOCH"  # the time that a build uses instead of now, in seconds since 1970
CONFIG_FILE = "~/.config/ditseed/config.toml"  # as shown in help texts; ~/.config stands for XDG_CONFIG_HOME
ENV_SHIM = "DITSEED_SHIM"  # for links of `ditseed shims`: "original" or "native", which engine does all that it can
ENV_PROFILE = "DITSEED_PROFILE"  # profile in the configuration file, like --profile
ENV_KILL_AT = "DITSEED_KILL_AT"  # tests only: name of a point at which the process dies
ENV_STOP_AT = "DITSEED_STOP_AT"  # tests only: comma-separated points at which the process stops until SIGCONT

RETRIES = 20  # consecutive retries of a piece without any progress
SERVER_PATIENCE = 120.0  # seconds for which a load retries an unreachable server
SILENCE_FACTOR = 20.0  # a step that pauses for longer than this factor times its longest pause so far is stuck
SILENCE = 300.0  # seconds for which a server that has to answer may send nothing
# Seconds for which every step may pause. Exceeds SILENCE, so that the error of a silent server comes first.
SILENCE_FLOOR = SILENCE + 60.0
# A command with other options needs --restart to discard an earlier run that exceeds one of these limits.
KEPT_ENTRIES = 20_000  # entries in finished partitions
KEPT_SECONDS = 60.0  # seconds spent on finished steps
COMPRESS = "zstd"
LADDER = ("quick", "pages", "tree", "indexes")  # levels of --verify; each includes the checks of those before it
LEVELS = ("none", *LADDER[:-1])  # for a copy; the level "indexes" is left out because it needs the configuration
PROBLEMS = 10  # problems of each kind that a check reports
DIFFERENCES = 20  # entries that a comparison names
SHARD_ENTRIES = 1_000_000  # entries in a file of LDIF
STDIN = "-"
ENGINES = ("native", "slapadd")  # programs that write a database; the first is the default
MAXSIZE_FACTOR = 3.0  # maxsize divided by the data's size: room for copy-on-write, growth and long readers

# Attributes that a server computes for each answer. They are never stored and must not be loaded
# (slapadd 2.6.14 even damages the attributes next to them). RFC 3045, RFC 4512 4.2, RFC 5020, X.501.
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
    # A container's account may have neither HOME nor an entry in passwd. Then its home is /, not the working directory.
    return Path(f"/{directory[2:]}" if directory.startswith("~/") else directory, "ditseed")


CGROUPS = Path("/sys/fs/cgroup")
CONNECTIONS = 4
_OWN = Path("/proc/self/cgroup")


# Controller -> file. In cgroups(7) version 1 each controller has its own hierarchy; version 2 has a single one ("").
_MEMORY = {"": "memory.max", "memory": "memory.limit_in_bytes"}


def memory() -> int:
    """Returns the bytes of RAM, at most the limit of the control groups."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([host, *(int(text) for text in _limits(_MEMORY) if text.isdigit())])


def sorting_memory() -> int:
    """Returns the default amount of memory for sorting, in bytes: a quarter of `memory()`."""
    return memory() // 4


def processors() -> int:
    """Returns the processors this process may use, limited by its affinity and the quotas of its control groups."""
    quotas = [_quota(text) for text in _limits({"": "cpu.max"})]
    version_1 = zip(_limits({"cpu": "cpu.cfs_quota_us"}), _limits({"cpu": "cpu.cfs_period_us"}), strict=False)
    quotas += [_quota(f"{quota} {period}") for quota, period in version_1]
    affinity = len(os.sched_getaffinity(0))
    return max(1, min([affinity, *(quota for quota in quotas if quota)]))


def connections() -> int:
    """Returns the default number of connections to a server. Each occupies a processor that other clients need, too."""
    return min(CONNECTIONS, processors())


def _quota(text: str) -> int:
    """Returns the whole processors in a quota like "200000 100000" (microseconds per period); 0: no limit."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or not int(words[1]):
        return 0
    return max(1, int(words[0]) // int(words[1]))


def _limits(files: dict[str, str]) -> Iterator[str]:
    """Yields the contents of `files` (controller -> file name) in our control groups and in those above them."""
    for controllers, path in _groups():
        for controller in controllers.split(","):
            if controller in files:
                top = CGROUPS / controller
                group = top / path.lstrip("/")
                for directory in (group, *group.parents):
                    if directory == top or top in directory.parents:
                        yield from _content(directory / files[controller])


def _groups() -> list[tuple[str, str]]:
    """Returns the controllers and the path of each control group of this process."""
    return [group for text in _content(_OWN) for group in re.findall(r"^\d+:([^:\n]*):(/.*)$", text, re.MULTILINE)]


def _content(path: Path) -> Iterator[str]:
    try:
        yield path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return


# --- slapd's tools ----------------------------------------------------------------------------------------------------

SHIM_MARK = b"# A link of `ditseed shims`"  # the second line of a link's program
# Directories that are searched after PATH: the PATH of an ordinary user or of cron often lacks sbin.
_SBIN = (
    "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/openldap/sbin:/usr/local/libexec:/usr/libexec/openldap:/opt/symas/sbin"
    ":/opt/symas/bin:/opt/bitnami/openldap/sbin:/opt/zimbra/openldap/sbin"
)


def find_tool(name: str) -> str | None:
    """Returns the path of the first program `name` in PATH, or in a directory where slapd's tools may be, that is not a
    link of `ditseed shims`. It may be NAME.distrib of dpkg-divert(1), which becomes the server unless the caller starts
    it with `name` as argv[0], or with -T."""
    if name == "slapd" and (slapcat := find_tool("slapcat")):
        # PATH may have another release: upstream installs slapcat in sbin as a link to slapd in libexec.
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
