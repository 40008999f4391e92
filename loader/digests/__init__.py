"""Compares what agents have signed with the batches that loads have read."""
