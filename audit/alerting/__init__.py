"""Alerts: which conditions raise one, and their delivery, once raised and once resolved."""
