"""Settings of a database shown, weighed and changed: maxsize, indexes, syncing; in cn=config, slapd.d or slapd.conf."""

from loader.operations.tune.maxsize import apply_maxsize

__all__ = ["apply_maxsize"]
