"""An agent's kept journal, given to the machine and directory that it is unpacked in.

An agent takes a copy of a journal for another agent's, and leaves what is open in it to that one.
So the entry that says whose it is is written anew here, as format 1 has it, with everything behind
it as it was.
"""

import os
import struct
from pathlib import Path
from typing import Final

import msgspec
from crc32c import crc32c

from agent.journal.binding import Binding

_START: Final = struct.Struct("<2sBBIII")  # magic, version, kind, sizes of meta and body, CRC
_END: Final = struct.Struct("<I")  # CRC of the start
_WHOSE: Final = slice(3, 7)  # machine, path, device, inode


def adopt(directory: Path) -> None:
    """All journals there."""
    now = Binding.of(directory)
    for path in directory.glob("journal-*.log"):
        kept = path.read_bytes()
        magic, version, kind, size, body, _ = _START.unpack_from(kept)
        assert (magic, version, body) == (b"PJ", 1, 0)
        begin = _START.size + _END.size
        entry = msgspec.msgpack.decode(kept[begin : begin + size])
        entry[_WHOSE] = [now.machine_id, os.fsencode(now.path), now.device, now.inode]
        meta = msgspec.msgpack.encode(entry)
        start = _START.pack(magic, version, kind, len(meta), 0, crc32c(meta))
        path.write_bytes(start + _END.pack(crc32c(start)) + meta + kept[begin + size :])
