"""Where entries go: each sink takes LDIF and says durably what it has."""
