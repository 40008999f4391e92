"""Connections to brokers: addresses, logins, framing, and the leaders of partitions."""
