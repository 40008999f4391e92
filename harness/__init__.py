"""Programs that tests and benchmarks start and stop: Penstock's own as processes, and foreign
ones.
"""
