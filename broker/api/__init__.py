"""The APIs that a broker serves: one file each, whose docstring lists the versions and what is not
implemented; and one table of all APIs."""
