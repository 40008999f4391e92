"""The resources of the interface: what each path and method does."""
