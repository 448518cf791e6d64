"""The door to LMDB: what a data.mdb says of itself, hot copies, checks, and the one record a clone must change."""
