"""Replication: what a follower copies from leaders, and what a leader knows of its followers."""
