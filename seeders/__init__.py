"""What a directory is seeded with, and how a replica gets it. Uses loader, never the other way."""
