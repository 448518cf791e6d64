"""Reads entries from sources, writes them to sinks, and combines both in operations."""
