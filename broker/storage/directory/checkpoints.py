"""Checkpoint files: an offset of each partition, in Kafka's text format, in the data directory.

    recovery-point-offset-checkpoint     below it, all of the partition is on disk
    log-start-offset-checkpoint          records below it were deleted
    replication-offset-checkpoint        below it, all replicas in sync have it
    cleaner-offset-checkpoint            of each key below it, only the last record is left

    0                       the format's version
    2                       how many entries follow
    page_views 0 51200
    page_views 1 49003

A file is replaced as a whole, so that a crash leaves the old file or the new. An entry may belong
to an earlier partition of the same name; a log checks it against its directory.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.storage.errors import BadCheckpoint
from ground.files.durable_files import replace_file

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
_VERSION: Final = 0

Key = tuple[str, int]  # topic and partition


def write_offsets(path: Path, offsets: Mapping[Key, int]) -> None:
    """Replaces the file. Blocks. Only one thread at a time may write the same file."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    replace_file(path, "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode())


def read_offsets(path: Path) -> dict[Key, int]:
    """Returns the offsets written last; none if there is no such file. Raises `BadCheckpoint`."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return {}
    try:
        version, count, *lines = text.splitlines()
        entries = [line.split() for line in lines]
        offsets = {(topic, int(index)): int(offset) for topic, index, offset in entries}
        if int(version) == _VERSION and int(count) == len(lines) == len(offsets):
            return offsets
    except ValueError as error:
        raise BadCheckpoint(f"{path}: {error}") from error
    raise BadCheckpoint(f"{path}: does not have {count} offsets in format version {_VERSION}")
