"""Events to finished record batches, column by column, with the account of every byte."""
