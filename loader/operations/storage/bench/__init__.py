"""Directories measured under a database: slapadd with and without sync, ditseed's build, searches, the disk itself."""
