"""DescribeLogDirs (key 35): where partitions lie on disk and how large they are.

Left out: a broker has one data directory, and no replica ever moves between directories.
"""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribableLogDirTopic:
    topic: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsRequest:
    topics: tuple[DescribableLogDirTopic, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsPartition:
    partition_index: int
    partition_size: int
    offset_lag: int = 0
    is_future_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsTopic:
    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResult:
    error_code: ErrorCode = ErrorCode.none
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResponse:
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
