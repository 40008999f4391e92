"""Offsets of partitions: the tiers that reported them, and contradictions."""
