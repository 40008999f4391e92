"""Two offsets of each partition, in two text files of the data directory, in Kafka's format.

    recovery-point-offset-checkpoint     below it, everything of the partition is on disk
    log-start-offset-checkpoint          records below it were deleted

    0                       the format's version
    2                       how many entries follow
    page_views 0 51200
    page_views 1 49003

Each is replaced as a whole, so that a crash leaves the old file or the new. An entry may be that of
an earlier partition of the same name; a log checks it against what its directory says.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from broker.storage.errors import BadCheckpoint
from broker.storage.files import write_atomically

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
START_OFFSETS: Final = "log-start-offset-checkpoint"
_VERSION: Final = 0

Key = tuple[str, int]  # topic and partition


class Checkpoint(NamedTuple):
    """What `Log.checkpoint` says, and `Log.open` is told."""

    recovery_point: int
    start_offset: int


def write_checkpoints(data_dir: Path, checkpoints: Mapping[Key, Checkpoint]) -> None:
    """Write both files. Blocks; one thread at a time."""
    points = {key: each.recovery_point for key, each in checkpoints.items()}
    starts = {key: each.start_offset for key, each in checkpoints.items()}
    write_offsets(data_dir / RECOVERY_POINTS, points)
    write_offsets(data_dir / START_OFFSETS, starts)


def read_checkpoints(data_dir: Path) -> dict[Key, Checkpoint]:
    """What was last written; nothing in a new directory. Raises `BadCheckpoint`."""
    points = read_offsets(data_dir / RECOVERY_POINTS)
    starts = read_offsets(data_dir / START_OFFSETS)
    return {key: Checkpoint(point, starts.get(key, 0)) for key, point in points.items()}


def write_offsets(path: Path, offsets: Mapping[Key, int]) -> None:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    write_atomically(path, "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode())


def read_offsets(path: Path) -> dict[Key, int]:
    """Nothing if there is no such file. Raises `BadCheckpoint`."""
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
    raise BadCheckpoint(f"{path}: not {count} offsets in version {_VERSION} of its format")
