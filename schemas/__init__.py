"""Avro schemas as values: what they say, what they may become, and how events are written with them."""
