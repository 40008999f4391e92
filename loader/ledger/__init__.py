"""What a loader tells the audit: what a run read of each partition, and what became of it.

The entries of a run follow from its manifest alone. So they can be written again and are the same.
"""
