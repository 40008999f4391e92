"""Decodes record batches into rows: Arrow columns of the table, whatever schema a record was
written with.
"""
