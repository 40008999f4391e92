"""A broker's counters and metrics, and its HTTP pages."""
