"""Targets of entries: each sink stores LDIF durably and reports what it stored."""
