"""DescribeLogDirs (key 35), versions 1–4.

The only data directory, the size of each partition in it (or of those requested), and from version
4 on the size and free space of its file system. Partitions that this broker does not have are left
out, as in Kafka; so are offline ones.

Not here: several directories, and replicas that move between them.
"""

import os
from collections import defaultdict
from pathlib import Path

import msgspec

from broker.access.authorization import Authorization
from broker.connections.caller import Caller
from broker.replicas.partitions import Partitions
from wire.acls import THE_CLUSTER, Operation, ResourceType
from wire.errors import ErrorCode
from wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_UNKNOWN = -1


class Needs(msgspec.Struct, frozen=True):
    partitions: Partitions
    data_dir: str
    authorization: Authorization


def handle(
    needs: Needs, request: DescribeLogDirsRequest, caller: Caller
) -> DescribeLogDirsResponse:
    rights = needs.authorization.of(caller)
    if rights.refuses(Operation.DESCRIBE, ResourceType.CLUSTER, THE_CLUSTER):
        # Versions before 3 have no field for the error: they get an empty list, as from Kafka.
        error_code = ErrorCode.cluster_authorization_failed
        return DescribeLogDirsResponse(error_code=error_code, results=())
    requested_keys = None
    if request.topics is not None:
        requested_keys = {
            (topic.topic, index) for topic in request.topics for index in topic.partitions
        }
    partitions_by_topic: defaultdict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for partition in needs.partitions:
        is_requested = (
            requested_keys is None or (partition.topic, partition.index) in requested_keys
        )
        if is_requested and not partition.offline_reason:
            partitions_by_topic[partition.topic].append(
                DescribeLogDirsPartition(
                    partition_index=partition.index, partition_size=partition.log.size
                )
            )
    directory = Path(needs.data_dir).absolute()
    total_bytes, usable_bytes = _space(directory)
    result = DescribeLogDirsResult(
        log_dir=str(directory),
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
            for name, partitions in partitions_by_topic.items()
        ),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return DescribeLogDirsResponse(results=(result,))


def _space(directory: Path) -> tuple[int, int]:
    """The size of the file system, and the bytes of it that this process may still use."""
    try:
        stats = os.statvfs(directory)
    except OSError:
        return _UNKNOWN, _UNKNOWN
    return stats.f_blocks * stats.f_frsize, stats.f_bavail * stats.f_frsize
