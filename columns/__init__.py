"""Avro into columns: the records of batches as one array of Avro, read at once into Arrow, and
resolved to the schema that is wanted. For the ledger and the loader.
"""
