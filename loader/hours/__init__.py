"""Decides which hours are complete, and closes them."""
