"""Authentication and permissions of a registry's callers, and forwarding on their behalf."""
