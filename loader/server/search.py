"""What to search for."""

from __future__ import annotations

from dataclasses import dataclass

EVERYTHING = ("*", "+")
SUBENTRIES = "1.3.6.1.4.1.4203.1.10.1"  # the control


@dataclass(frozen=True)
class Search:
    """One search. Referral objects are entries in it (ldapsearch -M, RFC 3296), and aliases are not followed."""

    base: str
    where: str = "(objectClass=*)"
    scope: str = "sub"
    attributes: tuple[str, ...] = EVERYTHING
    page: int = 0  # entries a page; 0 asks for no pages
    # RFC 3672: these alone, which no other search shows (but one of a single entry). For servers that offer SUBENTRIES.
    subentries: bool = False
