"""The door to the file system: durable writes, owners, free space, and which processes have files open."""
