"""Errors that keep a mirror from starting.

    MirrorFailure
    ├── DirectoryTaken    another mirror uses the data directory
    └── NoTarget          the target can neither keep offsets nor map them, or not as configured

Later errors of a partition or a topic are not exceptions: they are reported with it and retried,
while the others are copied.
"""


class MirrorFailure(Exception):
    """The error that keeps a mirror from working; the message has the remedy."""


class DirectoryTaken(MirrorFailure):
    pass


class NoTarget(MirrorFailure):
    pass
