"""Accesses LMDB: reads data files, makes hot copies, checks databases, and edits a copy or a new database."""
