"""All defaults and environment variables."""

from __future__ import annotations

import os
from pathlib import Path

ENV_STATE_DIR = "DITSEED_STATE_DIR"  # directory for runs, leases, and the settings before `tune`
ENV_TOOLS = "DITSEED_TOOLS"  # command prefix for slapadd, slapcat, ...: "chroot /srv/x", "podman exec ldap"
ENV_EPOCH = "SOURCE_DATE_EPOCH"  # time of a build instead of now, seconds since 1970
CONFIG_FILE = "~/.config/ditseed/config.toml"  # as shown in help texts; ~/.config stands for XDG_CONFIG_HOME
ENV_PROFILE = "DITSEED_PROFILE"  # profile in the configuration file, like --profile
ENV_KILL_AT = "DITSEED_KILL_AT"  # tests only: name of a point at which the process dies
ENV_STOP_AT = "DITSEED_STOP_AT"  # tests only: comma-separated points at which the process stops until SIGCONT

RETRIES = 20  # consecutive retries of a piece without any progress
SERVER_PATIENCE = 120.0  # seconds for which a load retries an unreachable server
SILENCE_FACTOR = 20.0  # times the longest pause so far: a step without progress for longer counts as stuck
SILENCE = 300.0  # seconds for which a server that owes us an answer may send nothing
# Seconds; a shorter pause never makes a step stuck. Exceeds SILENCE, so that a silent server is reported as the cause.
SILENCE_FLOOR = SILENCE + 60.0
WORTH_READ = 20_000  # entries; with more in finished partitions, changing the options requires --restart
WORTH_KEEPING = 60.0  # seconds; with more spent on finished steps, changing the options requires --restart
COMPRESS = "zstd"
LADDER = ("quick", "pages", "tree", "indexes")  # levels of --verify; each includes the checks of those before it
LEVELS = ("none", *LADDER[:-1])  # for a copy: level indexes would need the configuration
ENGINES = ("native", "slapadd")  # programs that write a database; the first is the default
MAXSIZE_FACTOR = 3.0  # maxsize / size of the data: leaves room for copy-on-write, growth and long readers

# Attributes that a server computes for each answer. They are never stored and must not be loaded
# (slapadd 2.6.14 even damages the attributes next to them). RFC 3045, RFC 4512 4.2, RFC 5020, X.501.
DYNAMIC_ATTRIBUTES = ("entryDN", "subschemaSubentry", "hasSubordinates", "numSubordinates", "numAllSubordinates")


def config_file() -> Path:
    """Returns the path of the operator's configuration file (XDG Base Directory Specification)."""
    import platformdirs  # imported here to keep --help fast: it loads configparser

    return platformdirs.user_config_path("ditseed") / "config.toml"


def state_dir() -> Path:
    """Returns the directory for files that outlive a run: /var/lib/ditseed for root, else one of the user."""
    named = os.environ.get(ENV_STATE_DIR)
    if named:
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/ditseed")
    import platformdirs

    return platformdirs.user_state_path("ditseed")
