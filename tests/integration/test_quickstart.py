"""bin/quickstart with the slapd that is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures import openldap_27, quickstart
from fixtures.slapd_config import Installation
from tests.support.require import require_2_7

pytestmark = pytest.mark.slapd


@pytest.mark.parametrize("strategy", ["search", "ldif", "clone"])
def test_with_the_slapd_of_2_7(
    strategy: str, short_tmp: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    require_2_7()
    for name in openldap_27.installation().variables():
        monkeypatch.setenv(name, "")  # what the quickstart sets is gone afterwards
    slapd = f"{openldap_27.prefix()}/libexec/slapd"
    words = ["-n", "300", "--strategy", strategy, "--directory", str(short_tmp), "--slapd", slapd]
    assert quickstart.main(words) == 0
    assert "equal; slapd 2.7" in capsys.readouterr().out
    assert json.loads((short_tmp / "report.json").read_text())["slapd"].startswith("slapd 2.7")


@pytest.mark.parametrize("path", ["/nowhere/slapd", "/usr/sbin/no-slapd", "/srv"])
def test_no_slapd_there(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        quickstart.main(["--slapd", path])
    assert f"there is no slapd at or below {path}" in capsys.readouterr().err


def test_the_distribution_s_own() -> None:
    found = Installation.below(Path("/usr"))
    assert Path(found.schema, "core.schema").is_file()
    assert list(Path(found.modules).glob("back_mdb*"))
