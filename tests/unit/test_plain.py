"""What of a text from outside is shown; of a table, all, however narrow the terminal is."""

from __future__ import annotations

import pytest

from loader import errors, plain
from loader.cli.report import show_table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cn=Zoë 日本,dc=x", "cn=Zoë 日本,dc=x"),
        ("cn=a\\, b\\2C", "cn=a\\, b\\2C"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[2J\x00\x7f", "\\x1b[2J\\x00\\x7f"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),
        ("\u202eexe\u2066\u200f\u2028", "\\u202eexe\\u2066\\u200f\\u2028"),
        ("\U000e0041", "\\U000e0041"),
        (b"a\xff\xc3".decode("utf-8", "surrogateescape"), "a\\xff\\xc3"),
    ],
)
def test_written_out(text: str, shown: str) -> None:
    assert plain.printable(text) == shown
    assert plain.printable(shown) == shown
    assert plain.shortened(text) == plain.sentence(text) == shown


def test_what_is_long_keeps_its_beginning_and_its_end_and_the_words_between() -> None:
    shown = plain.shortened("cn=" + "x" * 10_000 + ",dc=example")
    assert shown.startswith("cn=xxx")
    assert shown.endswith("xxx,dc=example")
    assert "[... 9,814 characters ...]" in shown
    assert len(shown) < 300
    assert plain.shortened("y" * 240) == "y" * 240, "what says so would be longer"
    sentence = plain.sentence(f"attribute {'a' * 5000} is not allowed: {'b' * 5000}")
    assert " is not allowed: " in sentence
    assert len(sentence) < 800
    assert len(plain.sentence("word " * 100_000)) < 1300


def test_facts_of_an_error() -> None:
    """What has to be typed or found stays whole; the facts themselves are as they were."""
    dn, command = "cn=\x1b[2J" + "x" * 1000, "ldapmodify " + "-H ldap://x " * 100
    error = errors.SettingNotRestored(what="nosync", suffix=dn, reason="a\nb", undo=command)
    assert "\x1b" not in str(error)
    assert "a\\nb" in str(error)
    assert command.strip() in str(error.advice())
    assert error.facts["suffix"] == dn
    facts = {"uri": "ldap://x", "limit": "the limit", "who": "x", "reason": "y"}
    pasted = errors.LimitTooLow(**facts, commands=("ldapmodify <<'EOF'", "dn: \x1b[2J", "EOF"))
    assert str(pasted.advice()).endswith(": \nldapmodify <<'EOF'\ndn: \\x1b[2J\nEOF")


def test_a_table_is_whole_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    long = "a reason of many words " * 20
    show_table(["layer", "last", "reason"], [["/dev/sda", "12.345", long], ["/dev/sdb", "1", "none"]])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["layer", "last", "reason"]
    assert first.split() == ["/dev/sda", "12.345", *long.split()]
    assert second == "/dev/sdb       1  none"
    show_table(["layer"], [])
    assert capsys.readouterr().out == "layer\n"
