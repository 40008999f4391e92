"""HTTP: a client, a small server for a few pages, and their security."""
