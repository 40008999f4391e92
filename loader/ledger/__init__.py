"""What a loader reports in the ledger: what its runs read and what became of it, and observations.

The entries of a run follow from its manifest alone, so they can be written again unchanged.
"""
