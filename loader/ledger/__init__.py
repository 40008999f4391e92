"""A loader's reports in the ledger: the input and outcome of its runs, and observations.

The entries of a run follow from its manifest alone, so they can be written again unchanged.
"""
