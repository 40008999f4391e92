"""`penstock quotas`: how much of the brokers their clients may have."""
