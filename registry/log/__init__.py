"""The schemas topic: read by all registries, written by one."""
