"""Everything that moves entries: sources, sinks, and the operations made of them."""
