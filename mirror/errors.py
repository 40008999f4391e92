"""What can keep a mirror from starting, in one tree.

    MirrorFailure
    ├── DirectoryTaken    another mirror has the data directory
    └── NoTarget          the target can neither keep offsets nor map them, or not as configured

What goes wrong later with a partition or a topic is no exception: it is told of that partition,
others go on, and it is tried again.
"""


class MirrorFailure(Exception):
    """The message says what to do."""


class DirectoryTaken(MirrorFailure):
    pass


class NoTarget(MirrorFailure):
    pass
