"""`penstock users`: who may log in to the brokers with a password."""
