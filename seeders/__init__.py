"""Synthetic trees, and the seeding of replicas. Imports loader, which never imports seeders."""
