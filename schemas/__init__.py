"""Avro schemas as values: what they say, what they may become, how events are written."""
