"""Checks, plans, benchmarks, watches and migrates the storage below a directory server's databases."""
