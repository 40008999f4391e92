"""Turns lines into the finished record batches of a topic."""
