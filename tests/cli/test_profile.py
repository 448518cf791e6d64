"""Options from profiles and variables: which wins, what is refused, and that the verbs really use them."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from fixtures.slapd import Slapd
from loader import defaults
from loader.cli import ditseed as root
from loader.cli import options as loader_options
from loader.cli.options import TYPED, names_of_all_verbs
from loader.errors import DirectoryUnsafe, FileUnsafe, NoSuchPath, UsageProblem
from tests.support.command import Done, ditseed
from tests.support.nobody import NOBODY
from tests.support.verbs import LEAVES, options

SUFFIX = "dc=example,dc=com"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="another account's file needs root")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """XDG_CONFIG_HOME."""
    (tmp_path / "xdg/ditseed").mkdir(parents=True, mode=0o755)
    return tmp_path / "xdg"


def written(home: Path, text: str) -> Path:
    path = home / "ditseed/config.toml"
    path.write_text(text)
    return path


def run(home: Path, *arguments: object, **variables: str) -> Done:
    return ditseed(*arguments, env={"XDG_CONFIG_HOME": str(home), **variables})


def resolved(home: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> click.Context:
    """The context of a verb, with its parameters as it would get them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    context = root.make_context("ditseed", list(words))
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


ALL = """
[default]
jobs = 2
memory = "64M"
[default.export]
jobs = 3
[fast]
jobs = 4
[fast.generate]
jobs = 5
[fast.generate.tree]
jobs = 6
"""


@pytest.mark.parametrize(
    ("words", "variables", "jobs"),
    [
        (["verify", "/x"], {}, 2),
        (["export", "-o", "/x"], {}, 3),
        (["--profile", "fast", "verify", "/x"], {}, 4),
        (["verify", "/x", "--profile", "fast"], {}, 4),
        (["--profile", "default", "verify", "--profile", "fast", "/x"], {}, 4),
        (["verify", "/x"], {"DITSEED_PROFILE": "fast"}, 4),
        (["--profile", "default", "verify", "/x"], {"DITSEED_PROFILE": "fast"}, 2),
        (["export", "-o", "/x", "--profile", "fast"], {}, 4),
        (["generate", "learn", "/x", "-o", "/y", "--profile", "fast"], {}, 5),
        (["generate", "people", "--profile", "fast"], {}, 6),
        (["--profile", "fast", "verify", "/x"], {"DITSEED_JOBS": "7"}, 7),
        (["--profile", "fast", "verify", "-j", "8", "/x"], {"DITSEED_JOBS": "7"}, 8),
        (["verify", "/x"], {"DITSEED_JOBS": ""}, 2),
    ],
)
def test_the_nearest_place_wins(
    home: Path, words: list[str], variables: dict[str, str], jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(home, ALL)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert resolved(home, words, monkeypatch).params["jobs"] == jobs


def test_values_of_each_kind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("no-value-check = true", "no-glue = true", "memory = 1048576", "start-tls = 2", 'config = "/x"')
    more = ('define = ["a=1", "b=2"]', 'uri = "ldap://one"', "operational = true")
    written(home, "\n".join(["[default]", *lines, *more]))
    built = resolved(home, ["build", "x.ldif"], monkeypatch).params
    assert (built["check_values"], built["glue"], built["memory"]) == (False, False, 1 << 20)
    assert (built["defines"], built["operational"]) == (("a=1", "b=2"), True)
    exported = resolved(home, ["export", "-o", "/x"], monkeypatch).params
    assert (exported["uris"], exported["start_tls"]) == (("ldap://one",), 2)


def test_variables_of_each_kind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = {"NO_GLUE": "1", "NO_VALUE_CHECK": "0", "START_TLS": "2", "URI": "ldap://one ldap://two", "CONFIG": "/x"}
    for name, value in {**first, "WRITE_CONTEXT_CSN": "true"}.items():
        monkeypatch.setenv(f"DITSEED_{name}", value)
    built = resolved(home, ["build", "x.ldif"], monkeypatch).params
    assert (built["glue"], built["check_values"], built["write_context"]) == (False, True, True)
    exported = resolved(home, ["export", "-o", "/x"], monkeypatch).params
    assert (exported["uris"], exported["start_tls"]) == (("ldap://one", "ldap://two"), 2)


def test_every_option_has_a_variable_of_its_own_unless_it_is_typed() -> None:
    """One rule, and no variable that means something else already."""
    taken = {value for name, value in vars(defaults).items() if name.startswith("ENV_")}
    taken |= {"DITSEED_TOOLS_TMPDIR", "DITSEED_PYTHON", "DITSEED_CACHE", "DITSEED_MIRROR"}
    for context in LEAVES:
        for one in options(context):
            name = loader_options.name_of(one)
            assert name is not None
            typed = name in TYPED or name == "profile"
            assert one.envvar == (None if typed else loader_options.variable(name)), one.opts
    assert not taken & {loader_options.variable(name) for name in names_of_all_verbs() if name != "profile"}


REFUSED = (
    ("[default]\njobz = 2\n", "[default]: there is no option jobz; did you mean jobs?"),
    ("[default]\nbind_dn = 'o=x'\n", "no option bind_dn; did you mean bind-dn?"),
    ("[default]\nD = 'o=x'\n", "no option D; write bind-dn"),
    ("[default.verify]\npieces = 2\n", "[default.verify]: there is no option pieces"),
    ("[default.verfy]\njobs = 2\n", "there is no verb verfy; did you mean verify?"),
    ("[default.verify.deep]\njobs = 2\n", "[default.verify]: there is no verb deep"),
    ("jobs = 2\n", "jobs is in no profile; put it below [default]"),
    ("[verify]\njobs = 2\n", "[verify] is a verb; write [default.verify]"),
    ("[default]\nreplace = true\n", "replace is taken from the command line only"),
    ("[default.verify]\nprofile = 'x'\n", "profile is taken from the command line only"),
    ("[default]\njobs = [1, 2]\n", "[default]: jobs takes text or a number"),
    ("[default]\njobs = true\n", "jobs takes text or a number"),
    ("[default]\ndry-run = 1\n", "dry-run is taken from the command line only"),
    ("[default]\njobs = 0\n", "config.toml)"),
    ("[default\n", "is not TOML: "),
    ("[default]\njobs = 1\n\xff\n", "is not TOML: "),
)


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_wrong_in_a_profile_is_said(home: Path, text: str, said: str) -> None:
    path = home / "ditseed/config.toml"
    path.write_bytes(text.encode("latin-1"))
    done = run(home, "verify", "/nowhere")
    done.refused(UsageProblem)
    message = done.err.splitlines()[0]
    assert [word for word in (said, str(path), "[usage]") if word not in message] == []


SECRET = "correct-horse"


@pytest.mark.parametrize("key", ["password", "bindpw", "admin-password", "Credentials", "passwd"])
def test_a_password_is_refused_and_not_repeated(home: Path, key: str) -> None:
    written(home, f"[default]\n{key} = '{SECRET}'\n")
    done = run(home, "verify", "/nowhere")
    done.refused(UsageProblem, "password-file")
    assert SECRET not in done.err + done.out


def test_a_profile_that_is_not_there(home: Path) -> None:
    run(home, "verify", "/nowhere", "--profile", "prod").refused(UsageProblem, "config.toml has no profile prod")
    written(home, "[production]\njobs = 1\n")
    done = run(home, "--profile", "prodution", "verify", "/nowhere")
    done.refused(UsageProblem, "has no profile prodution; did you mean production?")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DITSEED_JOBS", "many", "'many' is not a valid integer range (from the variable DITSEED_JOBS)"),
        ("DITSEED_REPLACE", "1", "the variable DITSEED_REPLACE is set, but --replace is taken from"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(home: Path, name: str, value: str, said: str) -> None:
    run(home, "build", "/nowhere", "--config", "/nowhere", **{name: value}).refused(UsageProblem, said)


def test_a_variable_that_is_nearly_one_is_told_of(home: Path) -> None:
    wrong = "DITSEED_" + "JOBZ"
    told = run(home, "verify", "/nowhere", DITSEED_CACHE="/x", **{wrong: "2"}).err
    assert f"the variable {wrong} belongs to no option; did you mean DITSEED_JOBS?" in told
    assert told.count("the variable") == 1


def test_help_and_completion_do_not_read_the_file(home: Path) -> None:
    """Whoever mends it needs them."""
    written(home, "[default\n")
    shown = run(home, "verify", "--help").ok().out
    assert "DITSEED_JOBS" in shown
    assert "config.toml" in " ".join(shown.split())
    words = {"COMP_WORDS": "ditseed verify --jo", "COMP_CWORD": "2"}
    assert "--jobs" in run(home, **words, _DITSEED_COMPLETE="bash_complete").out


@as_root
def test_root_reads_no_profile_that_another_account_can_change(home: Path) -> None:
    path = written(home, "[default]\njobs = 1\n")
    path.chmod(0o664)
    run(home, "verify", "/nowhere").refused(UsageProblem, f"another account can write to {path}")
    path.chmod(0o644)  # read by all: it holds no secret
    run(home, "verify", "/nowhere").refused(NoSuchPath)
    os.chown(path, 65534, -1)
    run(home, "verify", "/nowhere").refused(UsageProblem, f"another account can write to {path}")
    os.chown(path, 0, 0)
    os.chown(path.parent, 65534, -1)
    run(home, "verify", "/nowhere").refused(DirectoryUnsafe)


def test_a_fifo_is_no_profile(home: Path) -> None:
    os.mkfifo(home / "ditseed/config.toml")
    run(home, "verify", "/nowhere").refused(FileUnsafe)


@as_root
def test_the_profile_of_a_home_that_may_not_be_entered_is_none(scratch: Path) -> None:
    """sudo -u openldap keeps root's HOME."""
    closed = scratch / "xdg"
    (closed / "ditseed").mkdir(parents=True)
    written(closed, "[default\n")
    closed.chmod(0o700)
    done = ditseed("verify", "/nowhere", prefix=NOBODY, env={"XDG_CONFIG_HOME": str(closed)})
    done.refused(NoSuchPath)


def provider(home: Path, server: Slapd, *more: str) -> None:
    written(
        home,
        f'[default]\nuri = "{server.uri}"\nbind-dn = "{server.root_dn}"\nbase = "{SUFFIX}"\n'
        f'password-file = "{server.password_file}"\n' + "\n".join(more),
    )


def test_a_profile_reaches_a_server(home: Path, server: Slapd, tmp_path: Path) -> None:
    provider(home, server, f'config = "{server.config_path}"')
    made = run(home, "export", "-o", tmp_path / "out", "--json").ok()
    assert made.facts["base"] == SUFFIX
    learned = run(home, "generate", "learn", tmp_path / "out", "-o", tmp_path / "t.toml")
    assert "[template.nothing_to_learn]" in learned.err, "the server of the profile is not asked"
    run(home, "export", server.database_dir, "-o", tmp_path / "copy").ok()
    run(home, "compare", server.ldapi_uri, server.database_dir).ok()


def test_what_is_typed_beats_what_the_profile_says_of_the_same_choice(home: Path, server: Slapd) -> None:
    provider(home, server, f'config = "{server.config_path}"')
    assert "say which server" in run(home, "tune", "maxsize").err
    stopped = run(home, "tune", "sync", "--config", server.config_path, "--json").ok().facts
    assert stopped["target"] == str(server.config_path)
    live = run(home, "tune", "sync", "-H", server.ldapi_uri, "-Y", "EXTERNAL", "--json").ok().facts
    assert live["target"].startswith("ldapi://")


def test_an_account_is_not_mixed_from_two_places(home: Path, server: Slapd) -> None:
    """-D of the command line is never bound with the password of the profile's account, nor -Y with its name."""
    provider(home, server)
    compare = ("compare", server.uri, server.uri)
    run(home, *compare, "-D", "cn=other").refused(UsageProblem, "-D cn=other needs a password")
    run(home, *compare, DITSEED_BIND_DN="cn=other").refused(UsageProblem, "-D cn=other needs a password")
    run(home, *compare, "-x").ok()  # as the profile's account
    run(home, "compare", server.ldapi_uri, server.ldapi_uri, "-Y", "EXTERNAL").ok()


def test_a_profile_with_an_account_takes_none_of_the_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(
        home,
        '[default]\nbind-dn = "cn=a"\npassword-file = "/a"\nconsumer-bind-dn = "cn=c"\njobs = 2\n'
        '[local]\nuri = "ldapi:///"\nmechanism = "EXTERNAL"\n[other]\npassword-file = "/b"\n',
    )
    local = resolved(home, ["export", "-o", "/x", "--profile", "local"], monkeypatch).params
    account = [local[name] for name in ("bind_dn", "password_file", "mechanism", "jobs")]
    assert account == [None, None, "EXTERNAL", 2]
    other = resolved(home, ["export", "-o", "/x", "--profile", "other"], monkeypatch).params
    assert (other["bind_dn"], other["password_file"]) == ("cn=a", "/b")
    compared = resolved(home, ["compare", "a", "b", "--profile", "local"], monkeypatch).params
    assert (compared["bind_dn"], compared["consumer_bind_dn"]) == (None, "cn=c")


def test_a_simple_bind_that_is_typed_leaves_the_profiles_sasl_aside(home: Path, server: Slapd) -> None:
    """And keeps its name: without it the bind would be anonymous."""
    provider(home, server, 'authcid = "somebody"', "[default.compare]", 'mechanism = "GSSAPI"')
    run(home, "compare", server.uri, server.database_dir, "-x").ok()


def test_an_offline_seeding_ignores_what_a_profile_says_of_the_running_consumer(
    home: Path, server: Slapd, tmp_path: Path
) -> None:
    written(home, '[default]\nconsumer = "ldap://127.0.0.1:1"\nnosync = true\n')
    words = ("replica", "seed", "--strategy", "ldif", "--from", tmp_path / "none.ldif", "--config", server.config_path)
    done = run(home, *words)
    assert "[usage]" not in done.err, done
    run(home, *words, "--consumer", "ldap://x").refused(UsageProblem)


def test_the_log_file_of_a_profile_is_one_file(home: Path, tmp_path: Path) -> None:
    written(home, f'[default]\nlog-file = "{tmp_path}/of-profile"\n')
    run(home, "verify", "/nowhere")
    assert "ended with exit status" in (tmp_path / "of-profile").read_text()
    (tmp_path / "of-profile").unlink()
    run(home, "--log-file", tmp_path / "typed", "verify", "/nowhere")
    assert "ended with exit status" in (tmp_path / "typed").read_text()
    assert not (tmp_path / "of-profile").exists()


def test_a_run_that_tells_more_names_the_file(home: Path) -> None:
    path = written(home, "[default]\njobs = 1\n")
    assert f"options from {path}: jobs" in run(home, "-v", "verify", "/nowhere").err
