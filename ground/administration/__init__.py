"""The administration log: who changed what, when, from where, and with what result."""
