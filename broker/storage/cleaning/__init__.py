"""Compaction: cleans segments, and replaces them with the output."""
