"""The files that the agent has open: which it may open, how many, and how they outlive it."""
