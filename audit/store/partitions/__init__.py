"""Offsets of partitions: which tiers reported them, and what contradicts them."""
