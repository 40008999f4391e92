"""The ledger's topic, for all who write and read it: entries on their way there, and as columns
out of it; the counter that brokers and `penstock audit --count` share.
"""
