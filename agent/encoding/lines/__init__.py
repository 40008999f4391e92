"""Splits the bytes of a file into lines and messages, in any encoding. Knows nothing of events."""
