"""LDIF that other programs wrote: encodings, and OpenLDAP's `include:` lines."""

from __future__ import annotations

import codecs
import gzip
import re
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.tables import GENERATED, differences
from fixtures.life import ServerError
from fixtures.slapd import Slapd
from loader import errors, ldif
from loader.defaults import ENGINES
from loader.progress import Meter
from tests.support.adding import SUFFIX, TOP, unit
from tests.support.building import build
from tests.support.command import piped

pytestmark = pytest.mark.slapd


# --- whole files that are wrong -----------------------------------------------------------------

ENTRY = f"dn: ou=a,{SUFFIX}\nobjectClass: organizationalUnit\nou: a\n"
CHANGE = f"dn: ou=a,{SUFFIX}\nchangetype: modify\nreplace: ou\nou: a\n-\n"
WRONG = {  # text behind the first entry, the line that is named, and what is said of it
    "a change, and a worse one behind it": (f"{CHANGE}\n{ENTRY}description\n", 6, "ldapmodify"),
    "a URL": (f"{ENTRY}jpegPhoto:< file:///tmp/a.jpg\n", 8, "--allow-file-urls"),
    "a value on the next line": (f"{ENTRY}description:\non the next line\n", 9, "begins with a space"),
    "no blank line": (f"{ENTRY}{ENTRY}", 8, "blank line before it is missing"),
    "Ctrl-Z alone": ("\x1a", 5, "Ctrl-Z"),
    "CSV": ('dn,uid\n"dc=example,dc=com",a\n', 5, "CSV"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", WRONG)
def test_a_whole_file_is_told_its_first_fault_and_line(target: Slapd, tmp_path: Path, case: str, engine: str) -> None:
    text, line, cause = WRONG[case]
    path = tmp_path / "in.ldif"
    path.write_text(TOP + text)
    done = build(target, path, "--engine", engine)
    assert done.status in (errors.LdifSyntax.exit_status, errors.EntryRefused.exit_status), done
    assert cause in done.err, done
    # The native engine tells of a record without an entry where that begins.
    assert re.search(rf"\bline ({line}|{5 if text.startswith(CHANGE) else line})\b", done.err), done


def test_no_value_check_is_offered_for_what_slapadd_takes_and_nothing_else(target: Slapd, tmp_path: Path) -> None:
    """Which needs no such switch. What a module defines is named with it."""
    path = tmp_path / "in.ldif"
    path.write_text(f"{TOP}{ENTRY}pwdChangedTime: 20200101000000Z\n\n")
    for engine, error in zip(ENGINES, (errors.EntryRefused, errors.SchemaMissing), strict=True):
        build(target, path, "--engine", engine).refused(error, "`moduleload ppolicy`")
    for line in ("createTimestamp: 20200101000000", "entryUUID: b1d4f201-1dd211b2", "description:: UmVu6Q=="):
        path.write_text(f"{TOP}{ENTRY}{line}\n\n")
        done = build(target, path)
        done.refused(errors.EntryRefused)
        assert "--no-value-check" not in done.err, done
        with pytest.raises(ServerError):
            target.slapadd(path)
        (target.database_dir / "data.mdb").unlink()
    path.write_text(f"{TOP}{ENTRY}telephoneNumber: none\xa7\n\n", encoding="utf-8")
    assert "--no-value-check" in build(target, path).refused(errors.EntryRefused, "telephoneNumber")
    for engine in ENGINES:
        build(target, path, "--no-value-check", "--engine", engine, "--replace").ok()
        assert "telephoneNumber:: " in target.slapcat()


# --- encodings ----------------------------------------------------------------------------------

ENCODED = {
    "UTF-16": codecs.BOM_UTF16_LE + TOP.encode("utf-16-le"),
    "UTF-16 of the high byte first": codecs.BOM_UTF16_BE + TOP.encode("utf-16-be"),
    "UTF-16 without a mark": TOP.encode("utf-16-le"),
    "UTF-16, the high byte first, without a mark": TOP.encode("utf-16-be"),
    "UTF-32": codecs.BOM_UTF32_LE + TOP.encode("utf-32-le"),
    "a byte order mark": codecs.BOM_UTF8 + TOP.encode(),
    "UTF-16, compressed": gzip.compress(codecs.BOM_UTF16_LE + TOP.encode("utf-16-le")),
}


@pytest.mark.parametrize("written", ENCODED)
def test_other_encodings_are_named(tmp_path: Path, written: str) -> None:
    path = tmp_path / "in.ldif"
    path.write_bytes(ENCODED[written])
    with pytest.raises(errors.LdifEncoding, match=written.partition(" ")[0].rstrip(",")) as caught:
        ldif.scan([path], Meter("scan"))
    assert str(caught.value.facts["path"]) == str(path)


def test_other_encodings_are_refused_by_every_engine_and_in_a_stream(target: Slapd, tmp_path: Path) -> None:
    path, text = tmp_path / "in.ldif", ENCODED["UTF-16"]
    path.write_bytes(text)
    where = ("--config", target.config_path, "-b", target.suffix)
    for done in (*(build(target, path, "--engine", engine) for engine in ENGINES), piped(text, "build", "-", *where)):
        done.refused(errors.LdifEncoding, "iconv")


# --- include: -----------------------------------------------------------------------------------


def test_includes_are_refused_by_name(target: Slapd, tmp_path: Path) -> None:
    path = tmp_path / "in.ldif"
    path.write_text(f"{TOP}# more\nInclude: file://{tmp_path}/more.ldif\n")
    for engine in ENGINES:
        build(target, path, "--engine", engine).refused(
            errors.IncludeRefused, f"{path}, line {TOP.count(chr(10)) + 2}", "--allow-file-urls"
        )
    with pytest.raises(errors.IncludeRefused):
        ldif.learn([path], None, 1, Meter("learn"))


def _nested(directory: Path) -> Path:
    """Included at the beginning, in the middle, right above a record, twice in a row, and within another."""
    include = f"include: file://{directory}/"
    for name in ("a", "b", "c"):
        (directory / f"{name}.ldif").write_text(unit(name))
    inner = f"{include}b.ldif\n\n{unit('inner')}INCLUDE:file://{directory}/c.ldif\n"
    (directory / "inner.ldif").write_text(inner)
    (directory / "top.ldif").write_text(TOP.rstrip("\n") + "\n")
    (directory / "words").write_text("read from a file")
    path = directory / "in.ldif"
    rest = f"{include}a.ldif\n{include}inner.ldif\n{unit('last')}"
    value = f"description:< file://{directory}/words"
    path.write_text(f"{include}top.ldif\n{unit('first').rstrip()}\n{value}\n\n{rest}")
    return path


def test_equal_to_what_slapadd_includes(target: Slapd, tmp_path: Path) -> None:
    path = _nested(tmp_path)
    with closing(Slapd(form="conf")) as theirs:
        theirs.tool("slapadd", "-q", *theirs.config_arguments, "-b", SUFFIX, "-l", str(path))
        build(target, path, "--allow-file-urls").ok()
        assert not differences(theirs.database_dir, target.database_dir, GENERATED)
        assert target.slapcat().count("\ndn: ") + 1 == 7
        assert "description: read from a file" in target.slapcat()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file://{place}/nowhere.ldif", "No such file"),
        ("file:relative.ldif", "not a file:// URL"),
        ("file://other.host/x.ldif", "only file:///path"),
        ("http://example.com/x.ldif", "not a file:// URL"),
        ("file://{place}", "not a regular file"),
        ("file://{place}/in.ldif", "too many files"),
    ],
)
def test_includes_that_cannot_be_followed(target: Slapd, tmp_path: Path, url: str, words: str) -> None:
    path = tmp_path / "in.ldif"
    path.write_text(f"\n# comment\ninclude: {url.format(place=tmp_path)}\n\n{TOP}")
    build(target, path, "--allow-file-urls").refused(errors.IncludeRefused, words, f"{path}, line 3")
    assert not (target.database_dir / "data.mdb").exists()


def test_an_error_in_an_included_file_is_told_with_its_place(target: Slapd, tmp_path: Path) -> None:
    (tmp_path / "more.ldif").write_text(unit("more") + "dn: ou=bad\nno colon\n")
    path = tmp_path / "in.ldif"
    path.write_text(f"{TOP}include: file://{tmp_path}/more.ldif\n\n{unit('last')}dn: x\n: y\n\n")
    done = build(target, path, "--allow-file-urls", "--max-rejects", "2")
    assert f"{tmp_path}/more.ldif, line {unit('more').count(chr(10)) + 1}" in done.err, done
    line = TOP.count("\n") + 2 + unit("last").count("\n") + 1
    assert f"{path}, line {line}" in done.err, done


# --- NUL, and the end of the last line ----------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_nul(target: Slapd, tmp_path: Path, engine: str) -> None:
    """As it is, slapadd joins the line with the next one: `ab: c`. In base64 it is stored."""
    path = tmp_path / "in.ldif"
    path.write_text(TOP.rstrip("\n") + "\ndescription: a\0b\no: c\n\n")
    done = build(target, path, "--engine", engine)
    assert done.status in (errors.LdifSyntax.exit_status, errors.EntryRefused.exit_status), done
    assert "the value of description contains a NUL" in done.err, done
    assert not (target.database_dir / "data.mdb").exists()
    path.write_text(TOP.rstrip("\n") + "\ndescription:: YQBi\n\n")
    build(target, path, "--engine", engine).ok()
    assert "description:: YQBi\n" in target.slapcat()


@pytest.mark.long("native")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_last_line_without_an_end(target: Slapd, tmp_path: Path, engine: str) -> None:
    path = tmp_path / "in.ldif"
    path.write_text(TOP + unit("last").rstrip("\n"))
    done = build(target, path, "--engine", engine).ok()
    assert done.err.count(f"{path}: note: the last line has no newline") == 1, done.err
    assert target.slapcat().count("ou: last\n") == 1
    if engine == "native":  # a stream does not say how long it was to be
        words = ("build", "-", "--config", target.config_path, "-b", SUFFIX, "--replace")
        piped(path.read_bytes(), *words).refused(errors.LdifTruncated)
        rejects = tmp_path / "rejects.ldif"
        path.write_text(path.read_text().replace("organizationalUnit", "person"))
        done = build(target, path, "--max-rejects", "1", "--rejects", rejects, "--replace")
        assert done.status == errors.EXIT_DIFFERENT, done
        assert rejects.read_text().endswith("ou: last\n\n"), rejects.read_text()
