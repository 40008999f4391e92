"""The configuration of an agent, of its inputs, and of their lines."""
