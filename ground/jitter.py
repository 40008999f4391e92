"""Chance, for pauses that are not to end at the same instant everywhere.

It is the operating system's: processes that were forked from one do not have the same, and whoever
counts on a sequence of Python's random numbers is not disturbed by a thread that waits.
"""

from random import SystemRandom

chance = SystemRandom().random
