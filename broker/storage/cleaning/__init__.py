"""Compaction: cleans segments, and swaps the output in."""
