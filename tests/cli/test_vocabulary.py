"""One name for one thing, over all verbs. A new verb that calls it otherwise fails here."""

from __future__ import annotations

import re
from collections import defaultdict

import click
import pytest

from loader.cli import options as loader_options
from loader.cli.options import name_of, names_of_all_verbs
from loader.defaults import LADDER, LEVELS
from tests.support.verbs import LEAVES, options

# What people call it elsewhere -> what it is called here.
OTHERWISE = {
    "--jobs": {"--threads", "--workers", "--parallel", "--processes", "--connections"},
    "--output": {"--out", "--outfile", "--destination", "--dest"},
    "--replace": {"--force", "--overwrite", "--clobber", "--yes", "--force-replace"},
    "--verify": {"--level", "--verify-level", "--checks"},
    "--from": {"--source", "--input", "--template"},
    "--config": {"--slapd-config", "--configuration", "--conf"},
    "--base": {"--basedn", "--base-dn", "--search-base"},
    "--suffix": {"--suffix-dn", "--database"},
    "--json": {"--format-json", "--as-json"},
    "--dry-run": {"--simulate", "--no-act", "--check-only"},
    "--bind-dn": {"--binddn", "--user", "--bind"},
    "--password-file": {"--passfile", "--pwfile"},
    "--uri": {"--url", "--host", "--server", "--provider"},
    "--maxsize": {"--size", "--map-size", "--mapsize"},
    "--entries": {"--count", "--number"},
    "--memory": {"--mem", "--ram"},
    "--tmp": {"--tmp-dir", "--tmpdir", "--temp", "--scratch"},
    "--restart": {"--start-over", "--fresh", "--no-resume"},
    "--log-file": {"--logfile"},
}
# The letters that OpenLDAP's own tools use twice: ldapsearch -b BASE and slapadd -b SUFFIX, for instance.
# And -w: that of slapadd, and that of every monitoring plugin.
TWICE = {"b": {"base", "suffix"}, "R": {"realm", "repo"}, "w": {"write-context-csn", "warning"}}
MANNERS = {"quiet", "verbose", "log-file"}
SECOND = {"consumer", "consumer-bind-dn", "consumer-password-file", "consumer-mechanism"}


def is_known(option: click.Option) -> bool:
    """By name and letter. Of two that share a letter, a verb with both gives it to one."""
    letters = names_of_all_verbs().get(name_of(option) or "")
    mine = "".join(sorted(word[1:] for word in option.opts if not word.startswith("--")))
    if any(word in others for word in option.opts for others in OTHERWISE.values()):
        return False
    return letters is not None and (letters == mine or (not mine and letters in TWICE))


@pytest.mark.parametrize("context", LEAVES, ids=lambda context: context.command_path)
def test_a_verb_uses_the_vocabulary_and_shows_an_example(context: click.Context) -> None:
    found = options(context)
    assert [one.opts for one in found if not is_known(one)] == []
    assert [one.opts for one in found if not one.help] == []
    assert {name_of(one) for one in found} >= {name_of(one) for one in loader_options.options()} >= MANNERS
    words = [word for one in found for word in one.opts]
    assert len(words) == len(set(words))
    verb = context.command_path.removesuffix(" tree")  # `ditseed generate TEMPLATE`
    assert re.search(rf"^ +(\S+ )*{verb}( |$)", context.get_help(), re.MULTILINE)


@pytest.mark.parametrize("words", [["--threads"], ["--jobs"], ["-n", "--jobs"], ["-k"]])
def test_another_name_is_noticed(words: list[str]) -> None:
    assert not is_known(click.Option([*words, "value"]))


def test_a_letter_means_one_thing_and_what_is_taken_from_the_command_line_only_exists() -> None:
    assert names_of_all_verbs().keys() >= loader_options.TYPED
    meant = defaultdict(set)
    for name, letters in names_of_all_verbs().items():
        for letter in letters:
            meant[letter].add(name)
    assert {letter: names for letter, names in meant.items() if len(names) > 1} == TWICE


def test_the_same_name_takes_the_same_kind_of_value() -> None:
    """A flag in one verb is no choice in another; except the setting that `tune sync` shows and switches, and --until,
    which is a date in `backup pin`, and elsewhere also a CSN."""
    kinds = defaultdict(set)
    for context in LEAVES:
        for one in options(context):
            kinds[name_of(one)].add((one.is_flag, one.count, one.type.name.replace("path", "text")))
    assert {name for name, found in kinds.items() if len(found) > 1} == {"nosync", "until"}


def test_levels_are_one_ladder() -> None:
    found = [one for context in LEAVES for one in options(context) if name_of(one) == "verify"]
    assert len(found) == 6
    for one in found:
        assert isinstance(one.type, click.Choice)
        steps = [level for level in one.type.choices if level != "none"]
        assert tuple(steps) == LADDER[: len(steps)]
    assert ("none", *LADDER[:-1]) == LEVELS


def test_the_second_server_has_one_prefix() -> None:
    """Whatever verb reaches two servers: how to bind at the second is said in the same words."""
    two = [
        names
        for context in LEAVES
        for names in [{name_of(one) for one in options(context)}]
        if names & SECOND - {"consumer"}
    ]
    assert len(two) == 3
    assert all(names >= SECOND - {"consumer"} for names in two)
