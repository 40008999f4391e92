"""DescribeLogDirs (key 35), versions 1–4.

The only data directory, the size of each partition in it (or of those requested), and from version
4 on the size and free space of its file system. Penstock's audit also reads its inodes, and the
folders that this broker cannot write to. Partitions that this broker does not have are left
out, as in Kafka; so are offline ones.

Not here: several directories, and replicas that move between them.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from broker.access.authorization import Authorization
from broker.connections.caller import Caller
from broker.replicas.partitions import Partitions
from ground.files.file_system import FileSystem
from wire.acls import THE_CLUSTER, Operation, ResourceType
from wire.errors import ErrorCode
from wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    DirectoryState,
    UnwritableFolder,
)

_MOST_FOLDERS: Final = 4  # the others have the same cause


class Needs(msgspec.Struct, frozen=True):
    partitions: Partitions
    data_dir: str
    unwritable: Callable[[], Sequence[UnwritableFolder]]
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
    file_system = FileSystem.of(directory)
    state = DirectoryState(
        file_system.free_files, file_system.total_files, tuple(needs.unwritable()[:_MOST_FOLDERS])
    )
    result = DescribeLogDirsResult(
        log_dir=str(directory),
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
            for name, partitions in partitions_by_topic.items()
        ),
        total_bytes=file_system.total_bytes,
        usable_bytes=file_system.free_bytes,
        state=msgspec.json.encode(state).decode(),
    )
    return DescribeLogDirsResponse(results=(result,))
