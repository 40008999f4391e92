"""What modules share that write below /opt/penstock/releases: one at a time, not more than the disk
has room for, and the command on PATH.

A run whose connection was lost goes on here until it is done. Whoever comes after it waits, and
then looks what there is.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import contextmanager

PATIENCE = 600.0
_MEGABYTE = 1_000_000


class IsBusy(Exception):
    """Somebody else has been writing there for too long."""


class NoRoom(Exception):
    """More is to be written than there is room for; nothing was written."""


@contextmanager
def alone(releases):
    """Made if it is not there. The lock ends with whoever has it, however that ends."""
    os.makedirs(releases, mode=0o755, exist_ok=True)
    folder = os.open(releases, os.O_RDONLY)
    try:
        deadline = time.monotonic() + PATIENCE
        while not _locked(folder):
            if time.monotonic() > deadline:
                raise IsBusy(
                    f"another run has been installing in {releases} for {PATIENCE:.0f} s: look for "
                    "it there, and run the same playbook again"
                )
            time.sleep(0.5)
        yield
    finally:
        os.close(folder)


def _locked(folder):
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def put_on_path(module, root):
    """Makes the link through which people run the release in use. Returns whether it had to. What
    somebody else put there, a file or a link that does not lead into `root`, stays."""
    link = module.params["command"]
    if not link:
        return False
    target = os.path.join(root, "current", "bin", "penstock")
    at = os.readlink(link) if os.path.islink(link) else None
    if at == target:
        return False
    if os.path.lexists(link) and not (at or "").startswith(os.path.join(root, "")):
        module.warn(f"{link} is not a link into {root}, and was left alone: type {target}")
        return False
    if not module.check_mode:
        os.makedirs(os.path.dirname(link), exist_ok=True)
        new = f"{link}.new"
        if os.path.lexists(new):
            os.unlink(new)
        os.symlink(target, new)
        os.rename(new, link)
    return True


def check_room(releases, needed):
    """Before anything is written: a disk that is full is that of running programs, too."""
    free = shutil.disk_usage(releases).free
    if needed > free:
        raise NoRoom(
            f"{needed // _MEGABYTE + 1} MB are needed in {releases}, and {free // _MEGABYTE} MB "
            "are free. Make room there, and run the same playbook again"
        )
