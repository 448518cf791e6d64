"""Stores entries durably. Each module is for one kind of target, and reports the numbers of stored entries."""
