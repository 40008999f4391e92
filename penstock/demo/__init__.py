"""`penstock demo`: the pipeline of `up`, with applications that write, and programs that are
killed.
"""
