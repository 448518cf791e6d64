"""The ways to get the entries: `search` a live provider, take an `ldif`, `clone` a database. One function each."""

from __future__ import annotations

from seeders.replica.seed import Strategy
from seeders.replica.strategies import clone, ldif, search

BY_NAME: dict[str, Strategy] = {"search": search.run, "ldif": ldif.run, "clone": clone.run}
