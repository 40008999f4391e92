"""Connections to brokers: addresses, logins, framing, and which broker leads what."""
