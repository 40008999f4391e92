"""The points at which large requests can be split, so that other requests are served in between.

An API is listed if its answer about each element does not depend on the others. The sizes keep a
piece below a few milliseconds, whatever the client sends. Elements that can share a transaction in
ZooKeeper are split into larger pieces.
"""

from typing import Final

from broker.connections.large_requests import Cut

_FEW: Final = 16  # each element may have many members
_COMMITTED: Final = 1024  # offsets: few groups have more
_MANY: Final = 256  # in one transaction, or rejected together

_TOPICS: Final = Cut("topics", "topics")
_PARTITIONS: Final = Cut("topics.partitions", "topics.partitions")

CUTS: Final[dict[int, Cut]] = {
    2: _PARTITIONS,  # ListOffsets
    3: _TOPICS,  # Metadata
    8: Cut("topics.partitions", "topics.partitions", _COMMITTED),  # OffsetCommit
    9: Cut("groups.topics.partition_indexes", "groups.topics.partitions"),  # OffsetFetch
    10: Cut("coordinator_keys", "coordinators"),  # FindCoordinator
    15: Cut("groups", "groups"),  # DescribeGroups
    19: Cut("topics", "topics", _FEW),  # CreateTopics
    20: Cut("topics", "responses"),  # DeleteTopics
    21: _PARTITIONS,  # DeleteRecords
    23: _PARTITIONS,  # OffsetForLeaderEpoch
    30: Cut("creations", "results", _MANY),  # CreateAcls
    31: Cut("filters", "filter_results", _FEW),  # DeleteAcls
    32: Cut("resources", "results", _FEW),  # DescribeConfigs
    33: Cut("resources", "responses", _FEW),  # AlterConfigs
    35: Cut("topics.partitions", "results.topics.partitions"),  # DescribeLogDirs
    37: Cut("topics", "results", _FEW),  # CreatePartitions
    42: Cut("groups_names", "results"),  # DeleteGroups
    # ElectLeaders
    43: Cut("topic_partitions.partitions", "replica_election_results.partition_result", _MANY),
    44: Cut("resources", "responses", _FEW),  # IncrementalAlterConfigs
    45: Cut("topics.partitions", "responses.partitions", _MANY),  # AlterPartitionReassignments
    46: Cut("topics.partition_indexes", "topics.partitions", _MANY),  # ListPartitionReassignments
    47: Cut("topics.partitions", "topics.partitions", _MANY),  # OffsetDelete
    49: Cut("entries", "entries", _FEW),  # AlterClientQuotas
    50: Cut("users", "results"),  # DescribeUserScramCredentials
    61: Cut("topics.partition_indexes", "topics.partitions"),  # DescribeProducers
}
