"""A setting of a running server that is changed for the time of a load, and changed back whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from loader.errors import ConfigNotEditable, ConfigRefused
from loader.run import lease
from loader.run.killpoint import killpoint
from loader.run.lease import Lease


@contextmanager
def sharing(
    one: Lease, take: Callable[[], object], give_back: Callable[[], None]
) -> Iterator[None]:
    """As `lending`, together with other runs that need the same; the last one to leave gives it back."""

    def taking() -> None:
        killpoint(f"{one.kind}.written-down")
        take()

    def giving_back() -> None:
        give_back()
        killpoint(f"{one.kind}.given-back")

    with lease.joined(one, taking, giving_back):
        killpoint(f"{one.kind}.taken")
        yield


@contextmanager
def lending(
    one: Lease, take: Callable[[], object], give_back: Callable[[], None]
) -> Iterator[None]:
    """Written down, taken, given back. `give_back` raises LeaseStands where it cannot, and then the lease stands."""
    with lease.taken(one) as given_back:
        killpoint(f"{one.kind}.written-down")
        refused = False
        try:
            try:
                take()
            except (ConfigNotEditable, ConfigRefused):
                refused = True  # nothing was changed
                raise
            killpoint(f"{one.kind}.taken")
            yield
        finally:
            if not refused:
                give_back()
            killpoint(f"{one.kind}.given-back")
            given_back()
