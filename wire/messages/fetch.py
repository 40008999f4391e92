"""Fetch (key 1): returns record batches of partitions from an offset on.

From version 7 there are sessions (`session_id`, `session_epoch`, `forgotten_topics_data`); from 11
a consumer's rack and the replica that it should prefer (`rack_id`, `preferred_read_replica`); from
12 the epoch of the last fetched batch, the point where histories diverge, and the current leader
(`last_fetched_epoch`, `diverging_epoch`, `current_leader`).

Not supported: aborted transactions, and what only KRaft's quorum uses (`cluster_id`,
`snapshot_id`).
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.framing.slices import FileSlice


class FetchPartition(Struct, frozen=True, kw_only=True, gc=False):
    partition: int
    current_leader_epoch: int = -1
    fetch_offset: int
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int


class FetchTopic(Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    partitions: tuple[FetchPartition, ...]


class ForgottenTopic(Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    partitions: tuple[int, ...] = ()


class FetchRequest(Struct, frozen=True, kw_only=True, gc=False):
    cluster_id: str | None = None
    replica_id: int = -1
    max_wait: int
    min_bytes: int
    max_bytes: int = 2**31 - 1
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()
    rack_id: str = ""


class EpochEndOffset(Struct, frozen=True, kw_only=True, gc=False):
    epoch: int = -1
    end_offset: int = -1


class LeaderIdAndEpoch(Struct, frozen=True, kw_only=True, gc=False):
    leader_id: int = -1
    leader_epoch: int = -1


class SnapshotId(Struct, frozen=True, kw_only=True, gc=False):
    end_offset: int = -1
    epoch: int = -1


class AbortedTransaction(Struct, frozen=True, kw_only=True, gc=False):
    producer_id: int
    first_offset: int


class PartitionData(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = EpochEndOffset()
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    snapshot_id: SnapshotId = SnapshotId()
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: int = -1
    records: memoryview | bytes | FileSlice | None = b""


class FetchableTopicResponse(Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    partitions: tuple[PartitionData, ...]


class FetchResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    session_id: int = 0
    responses: tuple[FetchableTopicResponse, ...]


API = Api(
    key=1,
    name="Fetch",
    versions=range(4, 13),
    request=FetchRequest,
    response=FetchResponse,
)
