"""Connections of clients: TLS, login, framing, quotas and limits."""
