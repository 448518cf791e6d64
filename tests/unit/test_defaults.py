"""Where ditseed keeps what must outlive a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loader import defaults


def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(defaults.ENV_STATE_DIR, str(tmp_path))
    assert defaults.state_dir() == tmp_path


def test_root_has_the_hosts_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(defaults.ENV_STATE_DIR, "")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert defaults.state_dir() == Path("/var/lib/ditseed")


def test_a_user_has_a_place_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(defaults.ENV_STATE_DIR, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert defaults.state_dir() == tmp_path / "ditseed"
