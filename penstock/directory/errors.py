"""The errors that keep a pipeline from starting or running, in one tree.

    UpError
    ├── AlreadyRunning       another `penstock up` has the directory
    ├── DirectoryUnusable    it cannot be made, read or written
    ├── DirectoryGone        it was removed under a pipeline that ran
    ├── NotRestarted         no program was restarted, or it has not come back
    └── WrongFollow          what was asked to be followed is no such thing

What else goes wrong afterwards is no error of ours: programs that die are shown, and started again.
"""


class UpError(Exception):
    """A pipeline cannot start, or cannot go on; the message is one line that says what to do."""


class AlreadyRunning(UpError):
    """Another process has the directory."""


class DirectoryUnusable(UpError):
    """The directory, or a file in it, is not what it must be."""


class DirectoryGone(UpError):
    """What its programs write is kept nowhere."""


class NotRestarted(UpError):
    """No pipeline runs there, or the program does not run again."""


class WrongFollow(UpError):
    """No topic, no pattern, or none that an agent could follow."""
