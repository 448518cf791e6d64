"""Every default and every environment variable, side by side."""

from __future__ import annotations

import os
from pathlib import Path

ENV_STATE_DIR = "DITSEED_STATE_DIR"  # runs, leases, what `tune` found before
ENV_TOOLS = "DITSEED_TOOLS"  # command prefix for slapadd, slapcat, ...: "chroot /srv/x", "podman exec ldap"
ENV_EPOCH = "SOURCE_DATE_EPOCH"  # the time of a build, seconds since 1970, in the place of now
CONFIG_FILE = "~/.config/ditseed/config.toml"  # for help texts: below XDG_CONFIG_HOME
ENV_PROFILE = "DITSEED_PROFILE"  # the profile of that file, as --profile
ENV_KILL_AT = "DITSEED_KILL_AT"  # tests only: die at this named point
ENV_STOP_AT = "DITSEED_STOP_AT"  # tests only: stop there until SIGCONT; several with commas

RETRIES = 20  # of one piece, without any progress between them
SERVER_PATIENCE = 120.0  # seconds that a load tries a server that is gone
SILENCE_FACTOR = 20.0  # a step may be silent this many times longer than the longest pause seen so far
SILENCE = 300.0  # seconds that a server may be silent that owes us an answer
# Seconds; below it a pause of a step says nothing. More than a server may take, so that who waits for it tells.
SILENCE_FLOOR = SILENCE + 60.0
WORTH_READ = 20_000  # entries of finished partitions, and
WORTH_KEEPING = 60.0  # seconds of finished steps, above which other options need --restart
COMPRESS = "zstd"
LADDER = ("quick", "pages", "tree", "indexes")  # levels of --verify, each with all of those before it
LEVELS = ("none", *LADDER[:-1])  # of a copy: no configuration says which indexes there are
ENGINES = ("native", "slapadd")  # what writes a database; the first is the default
MAXSIZE_FACTOR = 3.0  # maxsize = this times the data: copy-on-write, growth and long readers need room

# Attributes that a server computes for each answer; they are not stored and must not be loaded
# (slapadd 2.6.14 even damages their neighbours). RFC 3045, RFC 4512 4.2, RFC 5020, X.501.
DYNAMIC_ATTRIBUTES = ("entryDN", "subschemaSubentry", "hasSubordinates", "numSubordinates", "numAllSubordinates")


def config_file() -> Path:
    """The operator's own, as the XDG Base Directory Specification has it."""
    import platformdirs  # not for --help: it loads configparser

    return platformdirs.user_config_path("ditseed") / "config.toml"


def state_dir() -> Path:
    """Where ditseed keeps what must outlive a run: /var/lib/ditseed for root, else the user's own."""
    named = os.environ.get(ENV_STATE_DIR)
    if named:
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/ditseed")
    import platformdirs

    return platformdirs.user_state_path("ditseed")
