"""Connections of commands to the programs of a pipeline."""
