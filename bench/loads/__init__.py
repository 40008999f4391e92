"""Load generators."""
