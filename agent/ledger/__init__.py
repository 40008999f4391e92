"""The agent's part of the ledger."""
