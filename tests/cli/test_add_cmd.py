"""The command line of `ditseed add`: what it prints, and what it refuses before it asks a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader import errors
from tests.support.adding import SUFFIX, TOP, add, command, people, person, write
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd

REPORT = {
    *("read", "added", "present", "replaced", "rejected", "rejects", "rejections", "before"),
    *("values_left_out", "waited_for_parents", "waited_for_named_entries", "transactions"),
    *("largest_transaction", "reconnects", "seconds"),
}


def test_the_report_for_machines(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", TOP, people(10), person("bad", sn=None))
    done = add(slapd_instance, path, "--max-rejects", 1, "--json")
    assert done.status == errors.EXIT_DIFFERENT
    assert set(done.facts) == {"report", *REPORT}
    ((where, line, dn, reason),) = done.facts["rejections"]
    assert (where, dn) == (str(path), f"cn=bad,{SUFFIX}")
    assert line == path.read_text().count("\n", 0, path.read_text().index("dn: cn=bad")) + 1
    assert reason.startswith("objectClassViolation (65): ")


def test_the_report_for_people(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", TOP, people(10), person("bad", sn=None))
    done = add(slapd_instance, path, "--max-rejects", 1, "--progress", "json")
    assert done.status == errors.EXIT_DIFFERENT
    assert '"event": "step", "step": "load", "entries": 1' in done.err
    assert f": cn=bad,{SUFFIX}: objectClassViolation (65)" in done.err
    assert "added                     11" in done.out
    assert "entries/s)" in done.out


REFUSED = (
    *("", "- -", "- --dry-run", "{ldif} --rejects {ldif}", "{ldif} --batch 0", "{ldif} --batch many"),
    *("{ldif} --jobs 0", "{ldif} --max-rate 0", "{ldif} --on-exists overwrite", "{ldif} --timeout nothing=3"),
)
# Found before the first entry is sent.
UNFIT = [
    (people(10) + "dn: cn=x\nthis is no line\n\n", errors.LdifSyntax, ""),
    (
        f"dn: {SUFFIX}\nchangetype: modify\nreplace: dc\ndc: example\n\n",
        *(errors.LdifSyntax, "`changetype: modify` makes this a change, which is for ldapmodify"),
    ),
    ("", errors.EmptyInput, ""),
]


def test_what_is_refused_before_a_server_is_asked(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", TOP)
    for arguments in REFUSED:
        ditseed(*command(slapd_instance, *arguments.format(ldif=path).split())).refused(errors.UsageProblem)
        assert path.read_text() == TOP
    for text, error, said in UNFIT:
        add(slapd_instance, write(tmp_path / "unfit.ldif", text)).refused(error, said)
    ditseed(*command(slapd_instance, path), "-H", "ldap://127.0.0.1:1").refused(errors.ServerDown)
    ditseed(*command(slapd_instance, path), "-D", f"cn=nobody,{SUFFIX}").refused(errors.BadCredentials)
    assert not slapd_instance.log_lines(" ADD dn=")


def test_another_load_in_the_same_place(slapd_instance: Slapd, tmp_path: Path) -> None:
    """A run directory that was named holds one load at a time."""
    one, other = (write(tmp_path / "1.ldif", TOP, person("bad", sn=None)), write(tmp_path / "2.ldif", TOP))
    place = ("--run-dir", tmp_path / "run")
    assert add(slapd_instance, one, *place).status == errors.AddRefused.exit_status
    add(slapd_instance, other, *place).refused(errors.RunMismatch, "inputs")
