"""Turns bytes of a file into events and dead letters. Independent of files, partitions, brokers."""
