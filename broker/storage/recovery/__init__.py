"""Recovers, repairs and truncates the logs in a data directory."""
