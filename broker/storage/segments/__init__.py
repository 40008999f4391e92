"""Segment files: batches, indexes, times, checks."""
