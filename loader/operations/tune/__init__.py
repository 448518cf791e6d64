"""Settings of a database shown, weighed and changed: maxsize, indexes, syncing; in cn=config or slapd.d."""

from loader.operations.tune.maxsize import apply_maxsize

__all__ = ["apply_maxsize"]
