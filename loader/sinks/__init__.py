"""Stores entries: each module here is for one kind of target, and reports what it stored durably."""
