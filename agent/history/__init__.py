"""What happened to names in folders, in order, also while no agent ran (decision 129)."""
