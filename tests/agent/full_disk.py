"""A disk that takes no more, for as long as a test wants it."""

import resource
import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_file_beyond(size: int) -> Generator[None]:
    """As on a full disk, writes are cut short, and then fail."""
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
