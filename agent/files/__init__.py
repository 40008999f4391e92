"""Follows the files of all inputs: which there are, what happens to them, and their bytes.

What a file is decides `agent.recognition`; what happened to names tells `agent.history`. Knows
nothing of what is in files.
"""
