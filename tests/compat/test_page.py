"""The page says what the rows say, each row is run by a test, and nothing that slapd ships is without one."""

from __future__ import annotations

import ast
import gzip
import re
from pathlib import Path

import ldap
import pytest

from fixtures.chroots import Chroot
from fixtures.compat import backends, matching_rules, options, overlays, page
from fixtures.slapd import ServerError, Slapd
from fixtures.slapd_config import Installation, Settings

HERE = Path(__file__).parent
# Modules that are neither backend nor overlay: schemes for hashed passwords, which no load looks into.
PASSWORDS = {"argon2", "pw-sha2", "pw-pbkdf2", "pw-apr1", "pw-netscape"}


def test_the_page_is_up_to_date() -> None:
    assert page.PAGE.read_text() == page.text(), "python -m fixtures.compat.page"


@pytest.mark.parametrize("section", page.SECTIONS, ids=lambda section: section.title)
def test_every_row_is_run(section: page.Section) -> None:
    """By a test of that name that takes all rows of the section."""
    for test in section.tests:
        file, _, function = test.partition("::")
        tree = ast.parse((HERE / file).read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert len({row.name for row in section.rows}) == len(section.rows)


def _modules(directory: Path) -> set[str]:
    return {path.stem for path in directory.glob("*.la")} - PASSWORDS


def _known() -> set[str]:
    of_overlays = {row.name.partition(":")[0] for row in overlays.ALL}
    return of_overlays | {f"back_{row.name}" for row in backends.ALL}


@pytest.mark.slapd
def test_every_module_has_a_row() -> None:
    found = _modules(Path(Installation().modules))
    assert {"back_mdb", "memberof"} <= found
    assert sorted(found - _known()) == []


@pytest.mark.slapd
@pytest.mark.timeout(600)
def test_every_module_of_the_newer_release_has_a_row(newer: Chroot) -> None:
    found = _modules(newer.root / "usr" / "lib" / "ldap")
    assert {"back_mdb", "memberof"} <= found
    assert sorted(found - _known()) == []


# --- syntaxes and matching rules ------------------------------------------------------------------


Published = dict[str, set[str]]


@pytest.fixture(scope="module")
def published() -> Published:
    return _published(Installation(), Path(Installation().modules))


@pytest.fixture(scope="module")
def published_by_newer(newer: Chroot) -> Published:
    return _published(Installation(prefix=newer.prefix), newer.root / "usr" / "lib" / "ldap")


def _published(installation: Installation, modules: Path) -> Published:
    """What slapd says in its subschema with all modules loaded; those that do not go together, one by one."""
    found: Published = {"ldapSyntaxes": set(), "matchingRules": set()}
    for group in _groups(installation, sorted(_modules(modules))):
        settings = Settings(modules=tuple(group))
        with Slapd(settings, form="conf", installation=installation) as server:
            ((_, values),) = server.search(
                attributes=tuple(found), base="cn=Subschema", scope=ldap.SCOPE_BASE
            )
        for name, known in found.items():
            known |= {value.decode() for value in values[name]}
    return found


def _groups(installation: Installation, modules: list[str]) -> list[list[str]]:
    groups: list[list[str]] = [["back_mdb"]]
    for module in modules:
        fitting = next((one for one in groups if _go_together(installation, [*one, module])), None)
        if fitting is None:
            groups.append(list(dict.fromkeys(("back_mdb", "back_ldap", "dynlist", module))))
        elif module not in fitting:
            fitting.append(module)
    return groups


def _go_together(installation: Installation, modules: list[str]) -> bool:
    server = Slapd(Settings(modules=tuple(modules)), form="conf", installation=installation)
    try:
        server.tool("slaptest", "-u", *server.config_arguments)
    except ServerError:
        return False
    finally:
        server.close()
    return True


def _without_a_row(published: Published) -> list[str]:
    syntaxes = {text.split()[1] for text in published["ldapSyntaxes"]}
    rules = {
        match[1]
        for text in published["matchingRules"]
        if (match := re.search(r"NAME '([^']+)'", text))
    }
    assert len(syntaxes) > 30
    assert len(rules) > 30
    known = {row.oid for row in syntaxes.ROWS} | {row.name for row in matching_rules.ROWS}
    return sorted((syntaxes | rules) - known)


@pytest.mark.slapd
def test_every_syntax_and_matching_rule_has_a_row(published: Published) -> None:
    assert _without_a_row(published) == []


@pytest.mark.slapd
@pytest.mark.timeout(600)
def test_every_one_of_the_newer_release_has_a_row(published_by_newer: Published) -> None:
    assert _without_a_row(published_by_newer) == []


# --- options of syncrepl --------------------------------------------------------------------------


def _manual(root: Path) -> str:
    """slapd.conf(5) as troff."""
    path = root / "usr" / "share" / "man" / "man5" / "slapd.conf.5.gz"
    if not path.is_file():
        pytest.skip("the manual page slapd.conf(5) is not installed")
    return gzip.decompress(path.read_bytes()).decode()


def _assert_options_are_those_of(manual: str) -> None:
    text = manual.replace("\\-", "-")
    synopsis = text[text.index(".B syncrepl rid=") :].partition(".RS")[0]
    found = set(re.findall(r"(?:(?<!\w)\[|\.B |syncrepl )([a-z_-]+)(?==|\])", synopsis))
    assert {"rid", "provider", "tls_ecname", "lazycommit"} <= found
    assert found == {row.name for row in options.ALL}


@pytest.mark.slapd
def test_every_option_of_syncrepl_has_a_row() -> None:
    _assert_options_are_those_of(_manual(Path("/")))


@pytest.mark.slapd
@pytest.mark.timeout(600)
def test_every_option_of_the_newer_release_has_a_row(newer: Chroot) -> None:
    _assert_options_are_those_of(_manual(newer.root))
