"""`penstock users`: the users who log in to the brokers with a password."""
