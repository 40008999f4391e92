"""HTTP: a client, a small server for pages and metrics, and their security."""
