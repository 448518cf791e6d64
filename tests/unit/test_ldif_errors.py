"""The native core's errors by the names that operators read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from loader import ldif
from loader.errors import (
    Cancelled,
    LdifSyntax,
    LdifTruncated,
    LdifUnreadable,
    LoaderError,
    TooManyEntries,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("build.too_many", TooManyEntries),  # of slices and of a database that is verified, too
        ("ldif.truncated", LdifTruncated),
        ("ldif.syntax", LdifSyntax),
        ("cancelled", Cancelled),
        ("ldif.io", LdifUnreadable),
    ],
)
def test_each_code_has_its_error(code: str, kind: type[LoaderError]) -> None:
    told = SimpleNamespace(code=code, path=None, line=7, message="so it is")
    found = ldif.as_loader_error(cast(Any, told), "x.ldif")
    assert type(found) is kind
    assert "x.ldif" in str(found) or kind is Cancelled
