"""What to search for."""

from __future__ import annotations

from dataclasses import dataclass

EVERYTHING = ("*", "+")


@dataclass(frozen=True)
class Search:
    """One search. Referral objects are entries in it (ldapsearch -M, RFC 3296), and aliases are not followed."""

    base: str
    where: str = "(objectClass=*)"
    scope: str = "sub"
    attributes: tuple[str, ...] = EVERYTHING
    page: int = 0  # entries a page; 0 asks for no pages
