"""Encodes the fields of events as Avro, by the schema of their topic."""
