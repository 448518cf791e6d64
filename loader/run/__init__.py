"""The memory of a run: its catalogue (SQLite), its named steps, its lock, and the leases it holds."""
