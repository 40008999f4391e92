"""The tasks of the broker that is the controller."""
