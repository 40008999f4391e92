"""Reads, writes, checks and compresses record batches."""
