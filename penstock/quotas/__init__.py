"""`penstock quotas`: limits on clients' use of the brokers."""
