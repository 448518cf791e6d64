"""The list of errors: no clash, nothing missing where one is raised, the same on the other side of a process border."""

from __future__ import annotations

import ast
import errno
import pickle
import re
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader import _native, errors, ldif
from loader.errors import (
    Cancelled,
    LdifSyntax,
    LdifTruncated,
    LdifUnreadable,
    LoaderError,
    NoSpace,
    StepTimeout,
    SystemFailed,
    TooManyEntries,
    mark_resumable,
)

ROOT = Path(__file__).parents[2]
PARTICULAR = errors.classes()
SOURCES = [*ROOT.glob("loader/**/*.py"), *ROOT.glob("seeders/**/*.py")]


def fields(kind: type[LoaderError]) -> set[str]:
    """What message and hint want to be told."""
    texts = (kind.message, kind.hint, kind.hint_without_run or "")
    return {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}


def made(kind: type[LoaderError]) -> LoaderError:
    return kind(**{name: f"<{name}>" for name in fields(kind)})


@pytest.mark.parametrize("attribute", ["code", "exit_status"])
def test_nothing_stands_for_two_errors(attribute: str) -> None:
    counted = Counter(getattr(kind, attribute) for kind in (LoaderError, *PARTICULAR))
    assert [value for value, times in counted.items() if times > 1] == []


@pytest.mark.parametrize("kind", PARTICULAR, ids=lambda kind: kind.__name__)
def test_an_error_of_the_list(kind: type[LoaderError]) -> None:
    """Its message reads on after `ditseed: `, as GNU's coding standards have it: no capital, no stop, one line. Its
    hint is whole sentences, or ends with what is there to be copied."""
    error = made(kind)
    assert 3 <= kind.exit_status < 126 or kind.exit_status == 130
    assert re.sub(r"^\{\w+\}", "x", kind.message)[0].islower()
    assert kind.message[-1] not in ".:;, "
    assert "\n" not in kind.message
    assert all(hint.endswith((".", "}")) for hint in (kind.hint, kind.hint_without_run) if hint is not None)
    assert "{" not in str(error)
    again = pickle.loads(pickle.dumps(error))  # on the other side of a process border
    assert (type(again), str(again), again.advice()) == (kind, str(error), error.advice())
    for _ in range(2):
        assert "{" not in error.advice()
        mark_resumable(error)


def test_braces_in_facts_are_left_alone_and_a_forgotten_fact_is_noticed() -> None:
    assert str(errors.LdifSyntax(path="{odd}", line=3, reason="{0}")) == "{odd}, line 3: {0}"
    with pytest.raises(KeyError):
        errors.NoSpace(path="/srv")


def raised(text: str) -> Iterator[tuple[int, type[LoaderError], set[str]]]:
    """Every place that makes an error of the list with its facts spelled out: line, class, names of the facts."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not node.keywords:
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        kind = getattr(errors, name, None)
        given = [keyword.arg for keyword in node.keywords]
        if isinstance(kind, type) and issubclass(kind, LoaderError) and None not in given:
            yield node.lineno, kind, {str(one) for one in given}


@pytest.mark.slow
def test_whoever_raises_one_tells_all_that_message_and_hint_want() -> None:
    """A hint that lacks a fact would fail only at night, when it is needed."""
    wrong, seen = [], 0
    for path in SOURCES:
        for line, kind, given in raised(path.read_text(encoding="utf-8")):
            seen += 1
            if given != fields(kind):
                wrong.append(f"{path.relative_to(ROOT)}:{line} {kind.__name__} {given ^ fields(kind)}")
    assert seen > 50
    assert not wrong, "\n".join(wrong)


def test_every_error_is_raised_somewhere() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES if path.name != "errors.py")
    assert [kind.__name__ for kind in PARTICULAR if not re.search(rf"\b{kind.__name__}\b", text)] == []


def test_syncrepl_is_removed_from_the_entry_of_the_database() -> None:
    """It is an attribute there: ldapdelete would ask for the whole database."""
    error = errors.NotAReplica(where="x", suffix="o=x", undo="printf 'delete: olcSyncrepl' | ldapmodify")
    assert "remove the attribute from the database's entry" in str(error.advice())
    assert "ldapdelete" not in str(error.advice())


def test_what_a_module_defines_is_named_with_it() -> None:
    def modules(names: str) -> list[str]:
        return re.findall(r"`moduleload (\w+)`", str(errors.SchemaMissing(config="x", names=names).advice()))

    assert modules("pwdchangedtime (/srv/pwd.ldif, line 5), memberOf, frobnicate") == ["ppolicy", "memberof"]
    assert modules("frob (/srv/pwd, line 5)") == []


def test_only_a_run_that_is_kept_is_resumed() -> None:
    """`backup run` keeps none, and has no --timeout."""
    stalled = StepTimeout(step="copy", silent="5 min", allowed="4 min", why="as a rule")
    assert stalled.advice() == "The same command starts over."
    mark_resumable(stalled)
    assert "--timeout copy=SECONDS" in str(stalled.advice())


@pytest.mark.parametrize(
    ("code", "number", "kind"),
    [
        # of slices and of a database that is verified, too
        ("build.too_many", None, TooManyEntries),
        ("ldif.truncated", None, LdifTruncated),
        ("ldif.syntax", None, LdifSyntax),
        ("ldif.changetype", None, LdifSyntax),
        ("ldif.version", None, LdifSyntax),
        ("cancelled", None, Cancelled),
        ("ldif.io", errno.EACCES, LdifUnreadable),
        ("ldif.io", errno.EIO, SystemFailed),
        ("ldif.no_space", errno.ENOSPC, NoSpace),
        ("ldif.no_space", errno.EDQUOT, NoSpace),
        # A bug stays one: the command line reports it as `internal`, with a traceback; it is no fault of a file.
        ("internal", None, _native.NativeError),
    ],
)
def test_each_code_has_its_error(code: str, number: int | None, kind: type[Exception]) -> None:
    told = _native.NativeError("so it is")
    told.code, told.line, told.errno, told.message = code, 7, number, "so it is"
    with pytest.raises(kind) as caught:
        raise ldif.as_loader_error(told, "x.ldif")
    assert caught.type is kind
    assert "x.ldif" in str(caught.value) or kind in (Cancelled, _native.NativeError)
