"""The APIs that a broker serves: one file each, whose docstring says which versions and what is
not done; and one table of them all.
"""
