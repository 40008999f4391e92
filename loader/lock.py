"""One loader on a table at a time, on this host: a slow run is not overtaken by the next.

The lock is a name among the kernel's sockets, the same for all users: it leaves no file, and ends
with the process, however that ends. Loaders on other hosts, or in other containers, do not see it,
nor do those that call the root by another name; of them, one commits a run and the others find its
number taken.
"""

import errno
import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from loader.errors import RunTaken


@contextmanager
def sole_loader(root: str, table: str) -> Iterator[None]:
    """`root` as its store calls it. Raises RunTaken if another process, or thread, holds it."""
    digest = hashlib.sha256(f"{root}\0{table}".encode()).hexdigest()[:32]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        try:
            lock.bind(f"\0penstock-load-{digest}")
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise RunTaken(
                f"table {table}: another loader on this host is at work; try again when it is done"
            ) from None
        yield
