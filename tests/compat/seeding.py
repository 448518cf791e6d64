"""`replica seed` with each strategy, and what a replica filled so holds otherwise than one that syncrepl filled."""

from __future__ import annotations

from fixtures.compat.topologies import CLONE, LDIF, ONLINE, SEARCH
from fixtures.slapd import Slapd
from fixtures.slapd_config import REPLICATOR
from tests.compat.replicas import SECOND, Site, configure
from tests.support.command import Done, ditseed
from tests.support.trees import Tree, differences, tree

WORK = r"^(start|read|select|scan|slice|copy|load): "  # steps that ask for entries, or look at them


def _bind(site: Site, suffix: str) -> tuple[object, ...]:
    secret = site.source.replicator_password_file
    return ("-H", site.source.uri, "-D", REPLICATOR, "-y", secret, "-b", suffix)


def seeded(site: Site, strategy: str) -> tuple[Slapd, Done]:
    """Stopped, or running when seeded so; what the last command said."""
    made = site.replica(() if strategy == ONLINE else site.lines)
    if strategy == ONLINE:
        made.start()
    done = Done(0, "", "")
    for theirs, own in zip(site.suffixes(site.source), site.suffixes(made), strict=True):
        if done.status == 0:
            done = _seed(site, strategy, made, theirs, own)
    return made, done


def _seed(site: Site, strategy: str, made: Slapd, theirs: str, own: str) -> Done:
    if strategy == ONLINE:
        return _online(site, made, theirs)
    where = ("--config", made.config_path, "--suffix", own)
    return ditseed("replica", "seed", "--strategy", *_words(site, strategy, made, theirs), *where)


def _words(site: Site, strategy: str, made: Slapd, suffix: str) -> tuple[object, ...]:
    bind = _bind(site, suffix)
    if strategy == SEARCH:
        return (SEARCH, *bind)
    if strategy == CLONE:
        directory = site.source.home / "second" if suffix == SECOND else site.source.database_dir
        return (CLONE, *bind, "--from", directory)
    assert strategy == LDIF
    out = made.home / f"export-{suffix}"
    ditseed("export", *bind, "-o", out).ok()
    return (LDIF, "--from", out)


def _online(site: Site, made: Slapd, suffix: str) -> Done:
    there = ("--consumer", made.ldapi_uri, "--consumer-mechanism", "EXTERNAL")
    env = {"DITSEED_STATE_DIR": str(made.home / "state")}
    done = ditseed("replica", "seed", "--strategy", ONLINE, *_bind(site, suffix), *there, env=env)
    if done.status == 0:
        configure(made, suffix, site.second if suffix == SECOND else site.lines)
    return done


def unlike(made: Site, natural: Slapd, other: Slapd) -> list[str]:
    """What the two hold that is not the same."""
    found: list[str] = []
    for suffix in made.suffixes(natural):
        mine, theirs = _tree(natural, suffix), _tree(other, suffix)
        assert mine, "an empty database proves nothing"
        found += differences(mine, theirs)
    return found


def _tree(server: Slapd, suffix: str) -> Tree:
    """Each consumer makes glue of its own above what it was sent, with an entryUUID that nobody else has."""
    found = tree(_slapcat(server, suffix))
    made = ("entryUUID: ", "entryCSN: ", "createTimestamp: ", "modifyTimestamp: ")
    return {
        dn: tuple(line for line in lines if not line.startswith(made)) if "objectClass: glue" in lines else lines
        for dn, lines in found.items()
    }


def _slapcat(server: Slapd, suffix: str) -> str:
    return server.tool("slapcat", *server.config_arguments, "-b", suffix, "-o", "ldif-wrap=no").decode()
