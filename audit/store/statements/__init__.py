"""Tables of statements that are stored one by one: loads, scrubs, altered text, and rarer
statements."""
