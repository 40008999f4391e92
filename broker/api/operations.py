"""The operations and resources that each API needs: one table, to be read beside Apache Kafka's
"Operations and Resources on Protocols".

Handlers make these checks themselves (`broker.access.authorization`), because the consequences of a
denial differ: one topic of many is rejected, left out, or not named. A test takes every row, allows
everything else, and sees the API reject the request; then it allows what the row says, and sees it
served. An API without a row fails that test.

Rows of one API are what its requests may need, depending on their contents; `instead` names an
equally sufficient right, `besides` one that the same request needs as well.
"""

from typing import Final

import msgspec

from wire.acls import Operation, ResourceType

_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_CLUSTER, _TRANSACTION = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID

Right = tuple[Operation, ResourceType]


class Rule(msgspec.Struct, frozen=True):
    """A required right, the purpose that needs it, and the other right that Kafka accepts
    instead."""

    operation: Operation
    kind: ResourceType
    needed_for: str = ""
    instead: Right | None = None
    besides: Right | None = None

    @property
    def rights(self) -> tuple[Right, ...]:
        own_right = self.operation, self.kind
        return (own_right,) if self.instead is None else (own_right, self.instead)


_READ_TOPIC: Final = Operation.READ, _TOPIC
_ON_CLUSTER_INSTEAD: Final = Operation.CREATE, _CLUSTER

RULES: Final[dict[int, tuple[Rule, ...]]] = {
    # Produce. Idempotent batches need nothing more, as since Kafka 2.8.
    0: (
        Rule(Operation.WRITE, _TOPIC),
        Rule(
            Operation.WRITE,
            _TRANSACTION,
            "copying by the mirror",
            besides=(Operation.WRITE, _TOPIC),
        ),
    ),
    # Fetch
    1: (
        Rule(Operation.READ, _TOPIC, "consumers"),
        Rule(Operation.CLUSTER_ACTION, _CLUSTER, "followers"),
    ),
    # ListOffsets
    2: (Rule(Operation.DESCRIBE, _TOPIC),),
    # Metadata
    3: (
        Rule(Operation.DESCRIBE, _TOPIC, "each topic described"),
        Rule(Operation.CREATE, _TOPIC, "topics created on first use", _ON_CLUSTER_INSTEAD),
    ),
    # OffsetCommit
    8: (
        Rule(Operation.READ, _GROUP, besides=_READ_TOPIC),
        Rule(
            Operation.READ,
            _TOPIC,
            "each topic with offsets to commit",
            besides=(Operation.READ, _GROUP),
        ),
    ),
    # OffsetFetch
    9: (
        Rule(Operation.DESCRIBE, _GROUP, besides=(Operation.DESCRIBE, _TOPIC)),
        Rule(
            Operation.DESCRIBE,
            _TOPIC,
            "each topic with returned offsets",
            besides=(Operation.DESCRIBE, _GROUP),
        ),
    ),
    # FindCoordinator
    10: (
        Rule(Operation.DESCRIBE, _GROUP, "of a group"),
        Rule(Operation.DESCRIBE, _TRANSACTION, "of transactions, of which there are none"),
    ),
    # JoinGroup, Heartbeat, LeaveGroup, SyncGroup
    11: (Rule(Operation.READ, _GROUP),),
    12: (Rule(Operation.READ, _GROUP),),
    13: (Rule(Operation.READ, _GROUP),),
    14: (Rule(Operation.READ, _GROUP),),
    # DescribeGroups
    15: (Rule(Operation.DESCRIBE, _GROUP),),
    # ListGroups. Lists groups the client may DESCRIBE, or all if it may DESCRIBE the cluster.
    16: (),
    # SaslHandshake, ApiVersions
    17: (),
    18: (),
    # CreateTopics. The new topic's details are returned to clients with DESCRIBE_CONFIGS.
    19: (Rule(Operation.CREATE, _TOPIC, instead=_ON_CLUSTER_INSTEAD),),
    # DeleteTopics. By id, the name is returned to clients with DESCRIBE.
    20: (Rule(Operation.DELETE, _TOPIC),),
    # DeleteRecords
    21: (Rule(Operation.DELETE, _TOPIC),),
    # InitProducerId. WRITE on any topic that could exist.
    22: (
        Rule(
            Operation.IDEMPOTENT_WRITE,
            _CLUSTER,
            "without a transactional id",
            (Operation.WRITE, _TOPIC),
        ),
        Rule(Operation.WRITE, _TRANSACTION, "of transactions, of which there are none"),
    ),
    # OffsetForLeaderEpoch
    23: (Rule(Operation.DESCRIBE, _TOPIC, instead=(Operation.CLUSTER_ACTION, _CLUSTER)),),
    # DescribeAcls
    29: (Rule(Operation.DESCRIBE, _CLUSTER),),
    # CreateAcls
    30: (Rule(Operation.ALTER, _CLUSTER),),
    # DeleteAcls
    31: (Rule(Operation.ALTER, _CLUSTER),),
    # DescribeConfigs
    32: (
        Rule(Operation.DESCRIBE_CONFIGS, _TOPIC, "a topic's"),
        Rule(Operation.DESCRIBE_CONFIGS, _CLUSTER, "a broker's"),
    ),
    # AlterConfigs
    33: (
        Rule(Operation.ALTER_CONFIGS, _TOPIC, "a topic's"),
        Rule(Operation.ALTER_CONFIGS, _CLUSTER, "a broker's"),
    ),
    # DescribeLogDirs
    35: (Rule(Operation.DESCRIBE, _CLUSTER),),
    # SaslAuthenticate
    36: (),
    # CreatePartitions
    37: (Rule(Operation.ALTER, _TOPIC),),
    # DeleteGroups
    42: (Rule(Operation.DELETE, _GROUP),),
    # ElectLeaders
    43: (Rule(Operation.ALTER, _CLUSTER),),
    # IncrementalAlterConfigs
    44: (
        Rule(Operation.ALTER_CONFIGS, _TOPIC, "a topic's"),
        Rule(Operation.ALTER_CONFIGS, _CLUSTER, "a broker's"),
    ),
    # AlterPartitionReassignments
    45: (Rule(Operation.ALTER, _CLUSTER),),
    # ListPartitionReassignments
    46: (Rule(Operation.DESCRIBE, _CLUSTER),),
    # OffsetDelete
    47: (
        Rule(Operation.DELETE, _GROUP, besides=_READ_TOPIC),
        Rule(
            Operation.READ,
            _TOPIC,
            "each topic with offsets to delete",
            besides=(Operation.DELETE, _GROUP),
        ),
    ),
    # DescribeClientQuotas
    48: (Rule(Operation.DESCRIBE_CONFIGS, _CLUSTER),),
    # AlterClientQuotas
    49: (Rule(Operation.ALTER_CONFIGS, _CLUSTER),),
    # DescribeUserScramCredentials
    50: (Rule(Operation.DESCRIBE, _CLUSTER),),
    # AlterUserScramCredentials
    51: (Rule(Operation.ALTER, _CLUSTER),),
    # DescribeCluster. Authorized operations are returned to clients with DESCRIBE on the cluster.
    60: (),
    # DescribeProducers
    61: (Rule(Operation.READ, _TOPIC),),
}
"""By the key of the API."""
