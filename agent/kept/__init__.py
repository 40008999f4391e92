"""What an agent has open outlives it (decision 35). Knows nothing of how files are followed."""
