"""Looks up the schemas of topics in the registry, and caches them."""
