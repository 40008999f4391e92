"""File systems on which other hosts write: their writes cause no event here."""

import os
from pathlib import Path
from typing import Final

_FROM_ELSEWHERE: Final = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "9p", "afs", "lustre", "gpfs", "beegfs"),
    *("glusterfs", "virtiofs", "ncpfs", "ocfs2", "gfs2"),
}


class Mounts:
    """Of this host. Read anew for a device that is not known yet."""

    def __init__(self, table: Path = Path("/proc/self/mountinfo")) -> None:
        self._table = table
        self._types: dict[int, str] = {}

    def without_events(self, device: int) -> str:
        """The type of a file system that knows of no events; empty if it does."""
        if device not in self._types:
            self._types[device] = ""
            self._read()
        kind = self._types[device]
        return kind if kind in _FROM_ELSEWHERE or kind.startswith("fuse.") else ""

    def _read(self) -> None:
        try:
            text = self._table.read_text(errors="surrogateescape")
        except OSError:
            return
        for line in text.splitlines():
            mount, _, source = line.partition(" - ")
            major, _, minor = mount.split()[2].partition(":")
            self._types[os.makedev(int(major), int(minor))] = source.split()[0]
