"""Reads messages, batches, positions and times of partitions."""
