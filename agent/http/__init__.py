"""The agent's HTTP pages."""
