"""Cures: the commands beside faults and alerts, and the runbook that explains them. Pure."""
