"""Options that follow from the fields of a dataclass, and the words that operators write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import click
import pytest
from click import IntRange

from loader.declared import Argument, Share, declare
from loader.errors import UsageProblem

Jobs = Annotated[int | None, "-j --jobs N", IntRange(1), "Number of threads."]
SEEN: list[object] = []


@dataclass(frozen=True, kw_only=True)
class Shared:
    jobs: Jobs = None
    glue: Annotated[bool, "--no-glue", "Build one database."] = True
    refused: Annotated[str | None, "-w", {"hidden": True}, "Not accepted."] = None


@dataclass(frozen=True, kw_only=True)
class Building(Shared):
    server_id: Annotated[int, "Server ID."] = 7
    jobs: Annotated[Jobs, "Number of slapadds."] = None
    plan: Annotated[bool, "--dry-run without it shows nothing."] = False
    inner: int = 3

    def begin(self) -> None:
        SEEN.append("begun")


@declare("build")
def build(
    inputs: Annotated[tuple[str, ...], Argument("[LDIF]...")],
    options: Building,
    write: Annotated[bool, "-w --write", "Write it."],
) -> None:
    """Build."""
    SEEN.extend((inputs, options, write))


def test_the_function_gets_what_was_given_and_the_defaults_of_the_fields() -> None:
    SEEN.clear()
    build.main(["a", "b", "-j", "2", "--no-glue", "-w"], standalone_mode=False)
    assert ["begun", ("a", "b"), Building(jobs=2, glue=False), True] == SEEN


def test_names_help_and_values_are_read_from_the_field() -> None:
    text = build.get_help(click.Context(build, info_name="build"))
    assert "Usage: build [OPTIONS] [LDIF]..." in text
    assert "-j, --jobs N" in text
    assert "Number of slapadds.  [x>=1]" in text
    assert "--server-id INTEGER  Server ID.  [default: 7]" in text
    assert "inner" not in text
    assert next(one for one in build.params if one.name == "plan").opts == ["--plan"]
    assert "--dry-run without it shows nothing." in text
    with pytest.raises(click.BadParameter, match="not in the range"):
        build.make_context("build", ["--jobs", "0"])


def test_a_hidden_letter_gives_way_to_one_of_the_verb() -> None:
    assert [one.name for one in build.params if "-w" in one.opts] == ["write"]


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), ("100%", 1.0), ("1", 1.0), ("0.5%", 0.005)])
def test_a_share(text: str, share: float) -> None:
    assert Share().parse(text) == pytest.approx(share)
    assert [Share(1000.0, zero=True).parse(growth) for growth in ("0", "1000%", "2")] == [0, 10, 2]


@pytest.mark.parametrize("text", ["5", "101%", "0", "0%", "-1%", "nan", "inf%", "%", "", "5 %%"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(UsageProblem, match=r"write 5% or 0\.05"):
        Share().parse(text)
