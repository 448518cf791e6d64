"""Settings of a database shown, weighed and changed: maxsize, indexes, syncing; in cn=config or slapd.d."""
