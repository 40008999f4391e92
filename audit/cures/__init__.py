"""Cures: the commands that accompany faults and alerts, and the runbook that explains them.
Pure."""
