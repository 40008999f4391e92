"""The agent's part of the ledger, which is shipped like its batches."""
