"""What a run did becomes true at once, by one manifest, and visible afterwards."""
