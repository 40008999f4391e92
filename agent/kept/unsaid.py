"""Whether something was read of the queue of inotify that is not written down yet.

What was read is in the queue no more, so a process that dies before it has written down what it
said of that leaves a queue with a hole that nobody can see. One byte says so: it is set before the
queue is read. It lies in memory of its own, kept beside the queue and as long as that, over the
death of whoever set it. To set it costs no call, and needs no room on any disk.
"""

import mmap
import os
from typing import Final

_SAID: Final = 0
_UNSAID: Final = 1


class Unsaid:
    """One thread's. `left` is the descriptor of an earlier process's, for this to close; without
    it, or if it is something else, nobody knows what was read, and `was_unsaid`."""

    def __init__(self, left: int | None = None) -> None:
        self.goes_on = False  # with what an earlier process had
        self.fd = -1
        if left is not None:
            try:
                self._byte = mmap.mmap(left, 1)
            except (OSError, ValueError):
                os.close(left)
            else:
                self.fd, self.goes_on = left, True
        if not self.goes_on:
            self.fd = os.memfd_create("unsaid", os.MFD_CLOEXEC)
            os.ftruncate(self.fd, 1)
            self._byte = mmap.mmap(self.fd, 1)
            self._byte[0] = _UNSAID
        self.was_unsaid = self.is_set

    @property
    def is_set(self) -> bool:
        return self._byte[0] != _SAID

    def set(self) -> None:
        self._byte[0] = _UNSAID

    def clear(self) -> None:
        self._byte[0] = _SAID

    def close(self) -> None:
        if self.fd >= 0:
            self._byte.close()
            os.close(self.fd)
            self.fd = -1
