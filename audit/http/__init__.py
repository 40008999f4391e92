"""The HTTP server: JSON for programs, a page for people, metrics for Prometheus."""
