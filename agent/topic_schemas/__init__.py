"""Which schema a topic has, asked of the registry and remembered."""
