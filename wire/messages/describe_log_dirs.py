"""DescribeLogDirs (key 35): returns the directories of partitions on disk, and their sizes.

Not supported: several directories; a broker has one, and replicas never move between directories.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


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
