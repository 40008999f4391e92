"""Tables about offsets of partitions: the tiers that reported them, and contradictions."""
