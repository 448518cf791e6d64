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
CLASSES = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LoaderError)),
    key=lambda kind: kind.exit_status,
)
PARTICULAR = [kind for kind in CLASSES if kind is not LoaderError]


def fields(kind: type[LoaderError]) -> set[str]:
    """What message and hint want to be told."""
    texts = (kind.message, kind.hint or "", kind.hint_without_run or "")
    return {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}


def made(kind: type[LoaderError]) -> LoaderError:
    return kind(**{name: f"<{name}>" for name in fields(kind)})


@pytest.mark.parametrize("attribute", ["code", "exit_status"])
def test_nothing_stands_for_two_errors(attribute: str) -> None:
    counted = Counter(getattr(kind, attribute) for kind in CLASSES)
    assert [value for value, times in counted.items() if times > 1] == []


@pytest.mark.parametrize("kind", PARTICULAR, ids=lambda kind: kind.__name__)
def test_an_error_of_the_list(kind: type[LoaderError]) -> None:
    error = made(kind)
    assert 3 <= kind.exit_status < 126 or kind.exit_status == 130
    assert "{" not in str(error)
    assert not kind.message.endswith(".")
    for _ in range(2):
        assert kind.hint is None or "{" not in str(error.advice())
        errors.mark_resumable(error)
    assert error.advice() is None or kind.hint is not None


@pytest.mark.parametrize("kind", PARTICULAR, ids=lambda kind: kind.__name__)
def test_it_crosses_a_process_border(kind: type[LoaderError]) -> None:
    error = made(kind)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.advice()) == (kind, str(error), error.advice())


def test_braces_in_facts_are_left_alone() -> None:
    error = errors.LdifSyntax(path="{odd}", line=3, reason="{0}")
    assert str(error) == "{odd}, line 3: {0}"


def test_a_forgotten_fact_is_noticed_when_the_error_is_made() -> None:
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
    for path in [*ROOT.glob("loader/**/*.py"), *ROOT.glob("seeders/**/*.py")]:
        for line, kind, given in raised(path.read_text(encoding="utf-8")):
            seen += 1
            if given != fields(kind):
                wrong.append(f"{path.relative_to(ROOT)}:{line} {kind.__name__} {given ^ fields(kind)}")
    assert seen > 50
    assert not wrong, "\n".join(wrong)


def test_every_error_is_raised_somewhere() -> None:
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in [*ROOT.glob("loader/**/*.py"), *ROOT.glob("seeders/**/*.py")]
        if path.parent.name != "errors"
    )
    assert [kind.__name__ for kind in PARTICULAR if f"{kind.__name__}(" not in text] == []


def test_syncrepl_is_removed_from_the_entry_of_the_database() -> None:
    """It is an attribute there: ldapdelete would ask for the whole database."""
    error = errors.NotAReplica(where="x", suffix="o=x", undo="printf 'delete: olcSyncrepl' | ldapmodify")
    assert "remove the attribute from the database's entry" in str(error.advice())
    assert "ldapdelete" not in str(error.advice())


def test_what_a_module_defines_is_named_with_it() -> None:
    names = "pwdchangedtime (/srv/pwd.ldif, line 5), memberOf, frobnicate"
    advice = str(errors.SchemaMissing(config="x", names=names).advice())
    assert "`moduleload ppolicy`" in advice
    assert "`moduleload memberof`" in advice
    advice = str(errors.SchemaMissing(config="x", names="frob (/srv/pwd, line 5)").advice())
    assert "moduleload" not in advice


# --- words ------------------------------------------------------------------------------------

# What a hint may begin with besides a capital: a name in code, or the fact that is a sentence itself.
NAMES = ("--", "`", "ditseed ", "docs/", "mdb_stat ", "{advice}")
# Facts that end a hint without a stop, since they are there to be copied.
PASTED = ("{commands}", "{rule}", "{undo}")
# What to do, in the words in which hints say it.
DEEDS = re.compile(
    r"(^|[.:;,] |\band |\bor |\bthen |\bPlease )(Add|Allow|Ask|Bind|Build|Change|Check|Choose|Compare|Convert|Copy|"
    r"Correct|Delete|Divide|Encrypt|Export|Find|Finish|Free|Give|Go|Import|Install|Learn|Let|Load|Look|Make|Mount|Name|"
    r"Raise|Read|Remove|Repeat|Replace|Report|Restore|Run|Save|Seed|Send|Set|Split|Start|Stop|Take|Upgrade|Use|Wait|"
    r"Do not use|On the provider, let|On OpenLDAP, paste)\b"
    r"|same (two )?commands? (resume|start)|report this|--help |\{advice\}",
    re.IGNORECASE,
)


def unsound(hint: str) -> list[str]:
    """What keeps a hint from being a complete sentence that says what to do."""
    wrong = []
    if not (hint[:1].isupper() or hint.startswith(NAMES)):
        wrong.append("its beginning")
    if not (
        hint.endswith((".", "{advice}", "{advice}{commands}", "{advice}{lines}"))
        or re.search(rf": ({'|'.join(PASTED)})$", hint)
    ):
        wrong.append("its end")
    if not DEEDS.search(hint):
        wrong.append("what to do")
    return wrong


@pytest.mark.parametrize("kind", PARTICULAR, ids=lambda kind: kind.__name__)
def test_a_hint_is_a_sentence_that_says_what_to_do(kind: type[LoaderError]) -> None:
    assert kind.hint is not None
    for hint in filter(None, (kind.hint, kind.hint_without_run)):
        assert unsound(hint) == [], hint


@pytest.mark.parametrize("kind", PARTICULAR, ids=lambda kind: kind.__name__)
def test_a_message_reads_on_after_the_name_of_the_program(kind: type[LoaderError]) -> None:
    """`ditseed: MESSAGE [CODE]`, as GNU's coding standards have it: no capital of its own, no stop, one line."""
    begins = re.sub(r"^\{\w+\}", "x", kind.message)
    assert begins[0].islower()
    assert kind.message[-1] not in ".:;, "
    assert "\n" not in kind.message
    assert not re.search(r"  | ,|\.\.|\bthere're\b", kind.message)


def advices() -> Iterator[tuple[str, str]]:
    """Each text that the sources give an error as `advice`: where it is, and the text with its facts as {}."""
    for path in [*ROOT.glob("loader/**/*.py"), *ROOT.glob("seeders/**/*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "advice":
                value = named.get(getattr(node.value, "id", ""), node.value)
                text = text_of(value)
                if text is not None:
                    yield f"{path.relative_to(ROOT)}:{node.value.lineno}", text


def text_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(getattr(part, "value", None) if isinstance(part, ast.Constant) else "{}" for part in node.values)  # type: ignore[misc]
    return None


@pytest.mark.slow
def test_an_advice_is_a_sentence_that_says_what_to_do() -> None:
    found = list(advices())
    assert len(found) > 20
    assert [(where, text, unsound(text)) for where, text in found if unsound(text)] == []


@pytest.mark.parametrize("hint", ["nothing was changed.", "Give -b", "Nothing was changed.", "Paste this: {commands}."])
def test_half_a_hint_is_noticed(hint: str) -> None:
    assert unsound(hint)


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
    ],
)
def test_each_code_has_its_error(code: str, number: int | None, kind: type[LoaderError]) -> None:
    told = _native.NativeError("so it is")
    told.code, told.line, told.errno, told.message = code, 7, number, "so it is"
    found = ldif.as_loader_error(told, "x.ldif")
    assert type(found) is kind
    assert "x.ldif" in str(found) or kind is Cancelled


def test_a_bug_stays_one() -> None:
    """The command line reports it as `internal`, with a traceback; it is no fault of a file."""
    told = _native.NativeError("a worker panicked")
    told.code, told.line, told.errno, told.message = "internal", None, None, "a worker panicked"
    with pytest.raises(_native.NativeError):
        ldif.as_loader_error(told, "x.ldif")
