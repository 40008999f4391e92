"""Avro schemas as values: their contents, their evolution, and the encoding of events."""
