"""Accesses the file system: durable writes, owners, free space, and the processes that have files open."""
