"""Spark jobs over existing files of rows: counting, conversion, merging.

Files are identified by the URIs that a Store's `uri` returns. Spark's exceptions pass through.
"""
