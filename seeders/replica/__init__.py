"""Getting a seed to a replica: strategies, preflight, steps."""
