"""Files in a Hadoop filesystem, with the guarantees that commits need: created completely, and only
if absent.
"""
