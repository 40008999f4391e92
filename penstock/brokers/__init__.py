"""`penstock brokers`."""
