"""One worker of a mirror: its share of the partitions, copied in lanes."""
