"""Replication: followers copy from leaders, and leaders track their followers."""
