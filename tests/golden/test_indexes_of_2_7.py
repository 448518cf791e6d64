"""Indexes of OpenLDAP 2.7's databases (LMDB 1.0): what the configuration means there, and what the core makes, against
what slapadd of 2.7.0 made (fixtures/golden/of-2.7); and, where a 2.7 is installed, against its slapindex and slapd."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import openldap_27
from fixtures.golden.case import server_with
from fixtures.golden.of_2_7 import ALL, Made
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from loader.declared import AuditResources
from loader.errors import OtherFormat
from loader.mdb import contents, edits, meta
from loader.mdb.verify import AuditReport, audit, verify
from loader.operations import made_with
from loader.operations.made_with import Fit, rebuild_by_core
from loader.operations.verify import core_database_of, core_target_of
from loader.progress import Meter
from loader.server import configuration
from tests.golden.test_of_2_7 import CHANGES, NEW
from tests.support.command import ditseed
from tests.support.golden import slapadd
from tests.support.require import require_2_7

pytestmark = pytest.mark.slapd


@pytest.fixture(params=ALL)
def made(request: pytest.FixtureRequest) -> Made:
    return ALL[request.param]


@pytest.fixture
def there(made: Made) -> Iterator[Slapd]:
    """A server of here with the database. Its slaptest writes the defaults of here into what it converts, that of
    index_hash64 too."""
    with closing(server_with(made.case.settings, "index_hash64 on")) as found:
        found.database_dir.rmdir()
        made.unpack(found.database_dir)
        yield found


@pytest.fixture
def installed(made: Made) -> Iterator[Slapd]:
    """An empty server of the 2.7 at hand."""
    require_2_7()
    with closing(made.server()) as found:
        yield found


def _look(there: Slapd) -> Fit:
    config = configuration.read(there.config_path)
    database = config.database(there.suffix)
    return made_with.look(there.database_dir, config, database, Meter("look"))


def _verified(there: Slapd) -> AuditReport:
    """`ditseed verify` refuses the file: the slapd of here cannot open it."""
    config, place = configuration.read(there.config_path), there.database_dir
    known = core_database_of(config, config.database(there.suffix), place)
    return audit(place, "indexes", AuditResources(), Meter("verify"), known)


def _rebuild(there: Slapd, attributes: list[str], scratch: Path) -> None:
    config = configuration.read(there.config_path)
    given = core_target_of(config, config.database(there.suffix), there.database_dir)
    rebuild_by_core(given, there.database_dir, attributes, scratch, Meter("index"))


@pytest.mark.long
def test_what_slapadd_made_is_found_as_it_should_be(there: Slapd) -> None:
    report = _verified(there)
    assert (report.problems, report.notes) == ((), ())
    assert _look(there).rebuild == ()


@pytest.mark.rows(1)
def test_a_configuration_of_another_format_is_refused_once(there: Slapd) -> None:
    """Not with a problem for each entry, and a slapindex that would damage the file."""
    for place in ((), (there.database_dir,)):
        done = ditseed("verify", *place, "--config", there.config_path)
        assert done.status == OtherFormat.exit_status, done
        assert "format 3" in done.err
        assert done.out == ""
    ditseed("verify", there.database_dir).ok()


@pytest.mark.long
def test_an_index_that_lost_its_entries_is_found_and_made_again(there: Slapd, made: Made, tmp_path: Path) -> None:
    attributes = list(contents.indexes(there.database_dir))
    assert "objectClass" in attributes
    edits.empty_indexes(there.database_dir, attributes[:1])
    kinds = {one.kind for one in _verified(there).problems}
    assert kinds == {"indexes.table", "indexes.missing"}
    found = _look(there)
    assert (found.rebuild, found.otherwise, found.unknown) == (tuple(attributes[:1]), (), ())
    edits.empty_indexes(there.database_dir, attributes)
    _rebuild(there, attributes, tmp_path)
    assert _look(there).rebuild == ()
    verify(there.database_dir, "tree", Meter("verify"))
    assert differences(made.unpack(tmp_path / "first"), there.database_dir) == []


@pytest.mark.long
def test_other_hashes_are_found(there: Slapd, made: Made) -> None:
    """`index_hash64 off` is no default of 2.7."""
    with closing(server_with(made.case.settings, "index_hash64 off")) as other:
        shutil.copy(there.database_dir / meta.DATA, other.database_dir)
        assert "objectClass" in _look(other).rebuild


@pytest.mark.rows(1)
def test_doctor_looks_at_its_indexes(there: Slapd) -> None:
    """Where slapd opens the file: one of 2.4 to 2.6 does not."""
    require_2_7()

    def told() -> str:
        env = {"DITSEED_TOOLS": openldap_27.tools()}
        done = ditseed("doctor", "--config", there.config_path, "--json", env=env)
        (found,) = [one for one in done.facts["findings"] if one["rule"] == "indexes"]
        return str(found["what"])

    assert "its indexes agree with a sample" in told()
    edits.empty_indexes(there.database_dir, ["objectClass"])
    assert "the index of objectClass lacks" in told()


@pytest.mark.long
def test_a_real_2_7_goes_on_with_them(installed: Slapd, made: Made, tmp_path: Path) -> None:
    """In a database that slapd itself has written to, so that it has free pages."""
    slapadd(installed, made.case.write_oracle(tmp_path))
    env = {"DITSEED_TOOLS": openldap_27.tools()}
    installed.start()
    installed.ldapmodify(CHANGES)
    installed.stop()
    attributes = list(contents.indexes(installed.database_dir))
    copy = tmp_path / "copy"
    ditseed("clone", installed.database_dir, copy, env=env).ok()
    edits.empty_indexes(installed.database_dir, attributes)
    installed.tool("slapindex", "-q", *installed.config_arguments, "-b", installed.suffix)
    by_slapindex = tmp_path / "by-slapindex"
    shutil.copytree(installed.database_dir, by_slapindex)
    shutil.copy(copy / meta.DATA, installed.database_dir)
    edits.empty_indexes(installed.database_dir, attributes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DITSEED_TOOLS", env["DITSEED_TOOLS"])
        _rebuild(installed, attributes, tmp_path)
    assert differences(by_slapindex, installed.database_dir) == []
    installed.start()
    assert installed.search("(objectClass=organizationalRole)", ("1.1",))
    installed.ldapmodify(f"dn: {NEW}\nchangetype: delete\n")
    installed.ldapmodify(CHANGES)
    installed.stop()
    where = ("--config", installed.config_path, "--verify", "indexes")
    ditseed("verify", *where, env=env).ok()
