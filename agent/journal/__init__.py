"""Keeps the agent's state over restarts and crashes (decision 17)."""
