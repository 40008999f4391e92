"""The configuration of inputs, and of their lines."""
