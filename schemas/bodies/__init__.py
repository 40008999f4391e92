"""Encodes and validates Avro bodies."""
