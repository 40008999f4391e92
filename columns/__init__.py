"""Reads Avro into columns: the records of batches become one Arrow array, resolved to a reader's
schema. For the ledger and the loader.
"""
