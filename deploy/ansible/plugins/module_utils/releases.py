"""Shared by the modules that install releases in /opt/penstock/releases: the lock, the check for
free space, and the link that puts the command on PATH.

If a run loses its connection, its module still continues on the host. The next run waits for the
lock, and then checks what is installed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import contextmanager

TIMEOUT = 600.0
_MEGABYTE = 1_000_000


class IsBusy(Exception):
    """Another process has held the lock for longer than `TIMEOUT`."""


class NoRoom(Exception):
    """The disk has too little free space, so nothing was written."""


@contextmanager
def locked(releases):
    """Locks the folder, which is created if missing. The kernel releases the lock of a process that
    dies."""
    os.makedirs(releases, mode=0o755, exist_ok=True)
    folder = os.open(releases, os.O_RDONLY)
    try:
        deadline = time.monotonic() + TIMEOUT
        while not _try_lock(folder):
            if time.monotonic() > deadline:
                raise IsBusy(
                    f"another run has been installing in {releases} for {TIMEOUT:.0f} s: wait "
                    "until its process on this host has ended, and run the same playbook again"
                )
            time.sleep(0.5)
        yield
    finally:
        os.close(folder)


def _try_lock(folder):
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def put_on_path(module, root):
    """Creates the link on PATH to the current release's command; returns whether it changed. Leaves
    any other file there alone, and warns: a link is ours only if its target is below `root`."""
    link = module.params["command"]
    if not link:
        return False
    target = os.path.join(root, "current", "bin", "penstock")
    current_target = os.readlink(link) if os.path.islink(link) else None
    if current_target == target:
        return False
    if os.path.lexists(link) and not (current_target or "").startswith(os.path.join(root, "")):
        module.warn(f"{link} is not a link into {root}, so it was not replaced: run {target}")
        return False
    if not module.check_mode:
        os.makedirs(os.path.dirname(link), exist_ok=True)
        new_link = f"{link}.new"
        if os.path.lexists(new_link):
            os.unlink(new_link)
        os.symlink(target, new_link)
        os.rename(new_link, link)
    return True


def check_room(releases, needed):
    """Raises NoRoom before anything is written if the disk, which running programs also use, has
    too little space."""
    free_bytes = shutil.disk_usage(releases).free
    if needed > free_bytes:
        raise NoRoom(
            f"{releases} has {free_bytes // _MEGABYTE} MB free, and the release needs "
            f"{needed // _MEGABYTE + 1} MB: free some space, and run the same playbook again"
        )
