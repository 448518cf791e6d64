"""Where entries come from: each source plans partitions and yields LDIF, block by block."""
