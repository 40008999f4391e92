"""Statements that are kept one by one: loads, scrubs, altered text, and rarer ones."""
