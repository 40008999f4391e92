"""The configuration reference: every key of every program, made from the structs that read them.

What a key means stands once, at its field. The terminal (`penstock keys`) and the pages in docs/
(`make reference`) show the same.
"""
