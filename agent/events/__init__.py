"""Bytes of a file to events and dead letters. Knows nothing of files, partitions, brokers."""
