"""The native core's errors by the names that operators read."""

from __future__ import annotations

import errno

import pytest

from loader import _native, ldif
from loader.errors import (
    Cancelled,
    LdifSyntax,
    LdifTruncated,
    LdifUnreadable,
    LoaderError,
    NoSpace,
    SystemFailed,
    TooManyEntries,
)


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
