"""Runs a load: creates its parts and calls them in order."""
