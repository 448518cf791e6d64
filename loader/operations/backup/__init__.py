"""Backups of whole databases: taken hot, kept in a repository (a directory), listed, checked, restored."""
