"""Which tests a change can affect."""

from __future__ import annotations

import pytest

from tests.support import changed

pytestmark = pytest.mark.slow


@pytest.mark.rows(1)
@pytest.mark.long(
    "fixtures/deep.toml-tests/integration/test_generate.py-tests/unit/test_csn.py",
    "loader/native/learn/src/lib.rs-tests/cli/test_generate_cmd.py-tests/cli/test_clone_cmd.py",
)
@pytest.mark.parametrize(
    ("path", "within", "without"),
    [
        ("loader/cli/tune_cmd.py", "tests/cli/test_tune_cmd.py", "tests/golden/test_equal.py"),
        ("loader/units.py", "tests/unit/test_units.py", "tests/unit/test_tiers.py"),
        ("loader/native/learn/src/lib.rs", "tests/cli/test_generate_cmd.py", "tests/cli/test_clone_cmd.py"),
        ("fixtures/golden/case.py", "tests/golden/test_equal.py", "tests/cli/test_tune_cmd.py"),
        ("tests/unit/test_dn.py", "tests/unit/test_dn.py", "tests/unit/test_csn.py"),
        ("docs/tune.md", "tests/test_documented.py", "tests/unit/test_csn.py"),
        (
            "fixtures/ansible/roles/replica/tasks/send.yml",
            "tests/integration/test_ansible.py",
            "tests/unit/test_csn.py",
        ),
        ("fixtures/deep.toml", "tests/integration/test_generate.py", "tests/unit/test_csn.py"),
        ("bin/fuzz", "tests/fuzz/test_short.py", "tests/unit/test_csn.py"),
    ],
)
def test_what_a_change_can_affect(path: str, within: str, without: str) -> None:
    found = changed.affected([path])
    assert within in found
    assert without not in found


def test_a_change_of_a_base_affects_every_verb() -> None:
    for path in ("loader/native/common/src/error.rs", "loader/errors.py"):
        found = changed.affected([path])
        assert {"tests/golden/test_equal.py", "tests/integration/test_clone.py"} <= found
    assert changed.affected(["setup.cfg"]) == set(changed.test_files())
