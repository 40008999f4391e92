"""Spark jobs over files of rows that exist: counted, given another form, made fewer.

Files are named by their URIs, as a Store's `uri` has them. What Spark raises passes through.
"""
