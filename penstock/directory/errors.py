"""The errors that keep a pipeline from starting or running, in one tree.

    UpError
    ├── AlreadyRunning       another `penstock up` has the directory
    ├── DirectoryUnusable    the directory cannot be created, read or written
    ├── DirectoryGone        the directory was removed while the pipeline ran
    ├── NotRestarted         no program was restarted, or it did not become ready
    └── WrongFollow          an invalid argument of --follow

Programs that die later are no such errors: they are shown and restarted.
"""


class UpError(Exception):
    """A pipeline cannot start or continue; the message is one line with the remedy."""


class AlreadyRunning(UpError):
    """Another process uses the directory."""


class DirectoryUnusable(UpError):
    """The directory, or a file in it, is invalid."""


class DirectoryGone(UpError):
    """The directory was removed, so that programs' data would be lost."""


class NotRestarted(UpError):
    """No pipeline runs in the directory, or the program did not become ready."""


class WrongFollow(UpError):
    """An invalid topic or pattern."""
