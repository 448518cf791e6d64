"""Stores entries. Each module is for one kind of target, stores entries durably, and reports what it has stored."""
