"""Connections of clients: TLS, login, framing, quotas, and what they may ask at a time."""
