"""Compares the reports of adjacent tiers about a topic, and derives its verdict. Pure."""
