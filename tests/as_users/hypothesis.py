"""Programs that tests start have no hypothesis, as a user's have none.

kio imports it wherever it is found: a fifth of a second for each process, and the tests start a
thousand. conftest.py puts this folder on their path.
"""

raise ImportError("hypothesis is for tests alone")
