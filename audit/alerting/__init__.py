"""Alerts: the conditions that raise them, and their delivery when raised and when resolved."""
