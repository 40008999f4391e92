"""The rights of a broker's clients: ACLs and their evaluation."""
