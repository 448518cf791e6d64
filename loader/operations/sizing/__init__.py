"""How large a database will be, and how long a build of it takes: from a sample that is built."""
