"""`penstock profile`: shows addresses and credentials."""
