"""Which files there are, what happens to them, and their bytes. Knows nothing of what is in
them.
"""
