"""Takes, lists, checks and restores backups of whole databases while slapd is running. A repository stores them."""
