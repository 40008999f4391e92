"""Addresses that a program listens on, and limits by network."""
