"""What a directory server's databases stand on: checked against what is known to matter."""
