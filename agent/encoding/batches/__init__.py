"""Packs events into finished record batches, column by column, and accounts for every byte."""
