"""`penstock brokers`: lists brokers, and moves replicas and leadership."""
