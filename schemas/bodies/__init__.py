"""Encoding and validation of Avro bodies."""
