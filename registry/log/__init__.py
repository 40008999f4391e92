"""The topic: read by all, written by one."""
