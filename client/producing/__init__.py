"""Sends batches to partitions: in order, numbered, acknowledged."""
