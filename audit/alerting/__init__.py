"""Telling somebody: what is worth it, once when it begins and once when it is over."""
