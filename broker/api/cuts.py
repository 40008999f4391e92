"""Where a request about many things can be cut, to be served in turns with everybody else's.

An API is here whose answer says of each element what it would say of it alone. The sizes keep a
piece below a few milliseconds, whoever asks. What is done together where it can be, as one
transaction of ZooKeeper's, is cut into large pieces.
"""

from typing import Final

from broker.large_requests import Cut

_FEW: Final = 16  # each may have many of its own
_COMMITTED: Final = 1024  # offsets: hardly a group has more
_MANY: Final = 256  # done together, or refused together

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
