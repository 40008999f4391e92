"""Segment files: their batches, indexes, timestamps and checks."""
