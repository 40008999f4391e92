"""The agent's status, metrics and pages."""
