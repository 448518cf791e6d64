"""Which rules of olcAccess rule out that an account adds the first entry of a database; in doubt, none does."""

from __future__ import annotations

import pytest

from loader import config
from loader.server import visibility

WHO = "gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"
# Debian's, of the database and then of the frontend.
DATABASE = (
    "to attrs=userPassword by self write by anonymous auth by * none",
    "to attrs=shadowLastChange by self write by * read",
    "to * by * read",
)
FRONTEND = (f"to * by dn.exact={WHO} manage by * break", "to dn.base= by * read")


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ((), False),
        (DATABASE, False),
        ((*DATABASE, *FRONTEND), False),
        (FRONTEND, True),
        ((f'to * by dn.exact="{WHO}" manage by * break', *DATABASE), True),
        (('to * by dn.exact="cn=other" manage by * break', *DATABASE), False),
        ((f"to * by dn.exact={WHO} read by * write",), False),
        ((f"to * by dn.exact={WHO} read continue by * write",), True),
        (("to * by users write",), True),
        (("to * by anonymous write by * read",), False),
        (("to * by self write by users read",), False),
        (("to attrs=entry,children by users write", "to * by * read"), True),
        (("to attrs=cn by users write", "to * by * read"), False),
        (("to dn.subtree=dc=x by * read", "to * by users write"), True),
        (("to dn.subtree=dc=x by users write", "to * by * read"), True),
        (("to * by group.exact=cn=admins,dc=x write by * read",), True),
        (("to * by users ssf=128 write by * read",), True),
        (("to * by users ssf=128 read by * write",), True),
        (("to * by users =rscx",), False),
        (("to * by users =arscx",), True),
        (("to * by users +w",), True),
        (("to * by * break",), False),
    ],
)
def test_rules(rules: tuple[str, ...], may: bool) -> None:
    parted = [config.words_of_value(rule) for rule in rules]
    assert visibility._might_write(parted, WHO) is may
