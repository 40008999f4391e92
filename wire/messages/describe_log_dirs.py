"""DescribeLogDirs (key 35): returns the directories of partitions on disk, and their sizes.

A Penstock broker adds the state of the directory: its inodes, and the folders in it that the broker
cannot write to.

Not supported: several directories; a broker has one, and replicas never move between directories.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api, Tag


class DescribableLogDirTopic(Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    partitions: tuple[int, ...] = ()


class DescribeLogDirsRequest(Struct, frozen=True, kw_only=True, gc=False):
    topics: tuple[DescribableLogDirTopic, ...] | None


class DescribeLogDirsPartition(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    partition_size: int
    offset_lag: int = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]


class DescribeLogDirsResult(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1
    state: Annotated[str, Tag(10_000)] = ""
    """A `DirectoryState` in JSON; empty: unknown."""


class UnwritableFolder(Struct, frozen=True, gc=False):
    """A folder that a broker cannot write to."""

    folder: str
    reason: str
    since: int  # milliseconds since 1970


class DirectoryState(Struct, frozen=True, gc=False):
    """What Kafka's answer has no field for."""

    free_files: int = -1  # inodes; -1: unknown
    total_files: int = -1
    unwritable: tuple[UnwritableFolder, ...] = ()

    @classmethod
    def of(cls, result: DescribeLogDirsResult) -> "DirectoryState":
        """Returns the state in an answer; an unknown one if there is none, or it is malformed."""
        try:
            return _DECODER.decode(result.state or "{}")
        except msgspec.MsgspecError:
            return cls()


_DECODER: Final = msgspec.json.Decoder(DirectoryState)


class DescribeLogDirsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    results: tuple[DescribeLogDirsResult, ...]


API = Api(
    key=35,
    name="DescribeLogDirs",
    versions=range(1, 5),
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
)
