"""Synthetic trees: realistic entries generated from templates."""
