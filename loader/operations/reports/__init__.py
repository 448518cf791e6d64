"""The report of one run: what was asked, what came of it, as a page for people and as metrics for Prometheus."""
