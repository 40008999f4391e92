"""Compares what adjacent tiers report of a topic, and derives its verdict. Pure."""
