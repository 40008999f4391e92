"""Reads configuration files into types, and explains their keys."""
