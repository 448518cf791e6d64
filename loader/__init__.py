"""Moves entries: sources, sinks, and the operations composed of them."""
