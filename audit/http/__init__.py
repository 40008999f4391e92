"""The HTTP server: JSON for programs, a page for people, and metrics for Prometheus."""
