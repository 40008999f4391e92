"""Keeps the agent's descriptors open over its death (decision 35)."""
