"""The data directory: its owner, its partitions, its checkpoints."""
