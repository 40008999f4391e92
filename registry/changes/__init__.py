"""Decides on clients' requests to register, set or delete. Pure."""
