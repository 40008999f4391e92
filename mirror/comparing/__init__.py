"""Compares both clusters in the background."""
