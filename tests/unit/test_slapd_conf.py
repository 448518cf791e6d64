"""Editing slapd.conf: the lines of one setting change, every other byte stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from loader import slapd_conf
from loader.config import Change
from loader.errors import ConfigNotEditable

MAIN = Path("/etc/ldap/slapd.conf")
SUFFIX = "dc=example,dc=com"

TEXT = """\
# Ours. \tdatabase mdb  # in a comment
include /etc/ldap/schema/core.schema
database mdb
suffix "dc=other,dc=com"
maxsize 1
index uid eq

database\tmdb
suffix\t"DC=Example, dc=com"
rootpw "se cret"   # kept
directory /var/lib/ldap
# how large
MaxSize\t 1073741824
index cn,sn
\teq,sub
# a thought about uid
index uid \\
eq
envflags nosync nometasync
overlay syncprov
syncprov-checkpoint 100 10
access to * by * read
"""


def reader(files: dict[Path, str]) -> Callable[[Path], str | None]:
    return files.get


def edited(text: str, *changes: Change) -> str:
    found = slapd_conf.edited(MAIN, SUFFIX, changes, reader({MAIN: text}))
    return found.get(MAIN, text)


def maxsize(size: int) -> Change:
    return Change("olcDbMaxSize", ("1073741824",), (str(size),))


def test_only_that_line_of_that_database() -> None:
    assert edited(TEXT, maxsize(7)) == TEXT.replace("MaxSize\t 1073741824", "MaxSize\t 7")


def test_a_setting_that_was_not_there_comes_after_the_directory() -> None:
    text = TEXT.replace("MaxSize\t 1073741824\n", "")
    assert "directory /var/lib/ldap\nmaxsize 7\n# how large\n" in edited(text, maxsize(7))


def test_a_setting_given_twice_is_given_once_afterwards() -> None:
    text = TEXT.replace("overlay", "maxsize 5\noverlay")
    lines = edited(text, maxsize(7)).splitlines()
    assert [line for line in lines if "axsize 7" in line.replace("S", "s").replace("\t", "")] == [
        "maxsize 7"
    ]
    assert not any(line.startswith("MaxSize") for line in lines)


def test_indexes_keep_their_lines_and_comments() -> None:
    change = Change(
        "olcDbIndex", ("cn eq,sub", "sn eq,sub", "uid eq"), ("sn eq,sub", "uid eq", "mail eq")
    )
    expected = TEXT.replace("index cn,sn\n\teq,sub\n", "index sn eq,sub\n")
    expected = expected.replace("index uid \\\neq\n", "index uid \\\neq\nindex mail eq\n")
    assert edited(TEXT, change) == expected


def test_an_index_that_slapd_does_not_show_stays() -> None:
    """Its conversion drops "subinitial,subany": what we were not shown is not ours to remove."""
    text = TEXT.replace("index cn,sn", "index title subinitial,subany\nindex cn,sn")
    change = Change("olcDbIndex", ("cn eq,sub", "sn eq,sub", "uid eq"), ("uid eq",))
    found = edited(text, change)
    assert "index title subinitial,subany\n" in found
    assert "cn" not in found.partition("MaxSize")[2].partition("# a thought")[0]


def test_flags_and_both_spellings_of_nosync() -> None:
    text = TEXT.replace("overlay syncprov", "dbnosync\noverlay syncprov")
    changes = (
        Change("olcDbEnvFlags", ("nosync", "nometasync"), ("nometasync",)),
        Change("olcDbNoSync", ("TRUE",), ()),
    )
    expected = TEXT.replace("envflags nosync nometasync", "envflags nometasync")
    assert edited(text, *changes) == expected


def test_line_ends_and_old_encodings_stay() -> None:
    text = TEXT.replace("# Ours", "# \udce9t\udce9").replace("\n", "\r\n").removesuffix("\r\n")
    found = edited(text, maxsize(7))
    assert found == text.replace("1073741824", "7") + "\r\n"


def test_a_database_in_an_included_file_is_edited_there() -> None:
    ours = Path("/etc/ldap/ours.conf")
    main = "include /nowhere/core.schema\ninclude /etc/ldap/ours.conf\ndatabase monitor\n"
    texts = reader({MAIN: main, ours: TEXT})
    found = slapd_conf.edited(MAIN, SUFFIX, [maxsize(7)], texts)
    assert found == {ours: TEXT.replace("1073741824", "7")}
    whole = slapd_conf.inlined(MAIN, found, texts)
    assert whole == f"include /nowhere/core.schema\n{found[ours]}database monitor\n"


def test_indexes_in_an_included_file() -> None:
    more = Path("/etc/ldap/indexes.conf")
    text = f"database mdb\nsuffix {SUFFIX}\ninclude {more}\nindex uid eq\n"
    change = Change("olcDbIndex", ("mail eq", "uid eq"), ("mail eq,sub", "uid eq"))
    found = slapd_conf.edited(MAIN, SUFFIX, [change], reader({MAIN: text, more: "index mail eq\n"}))
    assert found == {more: "", MAIN: text + "index mail eq,sub\n"}


def test_files_that_include_each_other_end() -> None:
    assert list(slapd_conf.statements(MAIN, reader({MAIN: f"include {MAIN}\n"}))) == []


def test_a_proxy_cache_has_settings_of_its_own() -> None:
    text = f"database mdb\nsuffix {SUFFIX}\noverlay pcache\npcache mdb 1 1 1 1\nmaxsize 5\n"
    assert edited(text, maxsize(7)).startswith(f"database mdb\nmaxsize 7\nsuffix {SUFFIX}\noverlay")
    assert edited(text, maxsize(7)).endswith("maxsize 5\n")


def test_no_such_database_in_the_text() -> None:
    with pytest.raises(ConfigNotEditable) as caught:
        slapd_conf.edited(MAIN, "dc=none", [maxsize(7)], reader({MAIN: TEXT}))
    assert "dc=none" in str(caught.value)
    assert caught.value.advice()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('suffix "dc=a b"', ("suffix", "dc=a b")),
        (r'rootpw "a\"b\\c"', ("rootpw", r'a"b\c')),
        (r"rootpw a\ b", ("rootpw", "a b")),
        ('index "cn" eq # x', ("index", "cn", "eq", "#", "x")),
        ('x ab"c d"e', ("x", "abc de")),
    ],
)
def test_words_are_cut_as_slapd_cuts_them(line: str, words: tuple[str, ...]) -> None:
    found = list(slapd_conf.statements(MAIN, reader({MAIN: line + "\n"})))
    assert [one.words for one in found] == [words]
