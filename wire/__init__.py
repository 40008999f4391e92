"""Kafka's protocol and record batches. No I/O, no threads: bytes in, bytes and file slices out.
Whatever a peer sends, the only exceptions that leave it are those of `errors.py`.
"""
