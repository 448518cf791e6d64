"""Synthetic trees: templates in, believable entries out."""
