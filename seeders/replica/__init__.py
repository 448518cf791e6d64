"""Seeding of replicas: strategies, preflight and steps."""
