"""Access to LMDB: reading data files, hot copies, checks, and the small edits that a copy or build needs."""
