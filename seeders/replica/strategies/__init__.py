"""The ways to get the entries: `search` a live provider, take an `ldif`, `clone` a database. One function each."""
