"""Spark, as a child process."""
