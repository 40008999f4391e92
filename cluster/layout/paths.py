"""The paths of nodes in ZooKeeper, below the chroot. No other module spells a path.

Names of topics and users are checked here, so that no name from outside becomes a path unchecked.
The resource of an ACL may have any name, and so may a group: it is percent-encoded into one
segment.
"""

from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote
from uuid import UUID

from cluster.errors import InvalidGroupName
from cluster.layout.names import check_group_name, check_topic_name, check_user_name, user_node_name
from wire.acls import PATTERN_TYPES, RESOURCE_TYPES, ResourcePattern

BROKER_IDS: Final = "/brokers/ids"
DATA_DIRECTORIES: Final = "/brokers/directories"
DRAINING: Final = "/brokers/draining"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
PRODUCER_IDS: Final = "/producer_ids"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
USER_CONFIGS: Final = "/config/users"
QUOTAS: Final = "/config/quotas"
DELETIONS: Final = "/admin/delete_topics"
OWED_DELETIONS: Final = "/admin/owed_deletions"
CONSUMERS: Final = "/consumers"
REGISTRIES: Final = "/registry"
LOGIN_KEY: Final = "/login_key"
ACLS: Final = "/acls"
ACL_DIRECTORIES: Final = MappingProxyType(
    {
        f"{ACLS}/{pattern_type.name.lower()}/{kind.words}": (kind, pattern_type)
        for pattern_type in PATTERN_TYPES
        for kind in RESOURCE_TYPES
    }
)
"""/acls/literal/Topic and so on, with the kind of resource and the type of pattern."""

FENCE: Final = "fence-"  # prefix of a group's fence
_NAMELESS: Final = "%"  # the segment of the nameless group; no other name is encoded as this

DEFAULT_BROKER: Final = "<default>"  # Kafka's name for the overrides shared by all brokers

SKELETON: Final = (
    "/brokers",
    BROKER_IDS,
    DATA_DIRECTORIES,
    DRAINING,
    TOPICS,
    "/cluster",
    "/config",
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    USER_CONFIGS,
    QUOTAS,
    "/admin",
    DELETIONS,
    OWED_DELETIONS,
    CONSUMERS,
    ACLS,
    *(f"{ACLS}/{pattern_type.name.lower()}" for pattern_type in PATTERN_TYPES),
    *ACL_DIRECTORIES,
)
_PRIVATE: Final = (USER_CONFIGS, LOGIN_KEY, ACLS)


def is_public(path: str) -> bool:
    """Whether the node is world-readable. Nodes with credentials or permissions are not."""
    return not any(path == root or path.startswith(root + "/") for root in _PRIVATE)


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def data_directory(broker_id: int) -> str:
    return f"{DATA_DIRECTORIES}/{broker_id}"


def draining(broker_id: int) -> str:
    return f"{DRAINING}/{broker_id}"


def topic(name: str) -> str:
    check_topic_name(name)
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{topic(name)}/partitions"


def partition(name: str, index: int) -> str:
    return f"{topic(name)}/partitions/{index}"


def partition_state(name: str, index: int) -> str:
    return f"{topic(name)}/partitions/{index}/state"


def topic_config(name: str) -> str:
    check_topic_name(name)
    return f"{TOPIC_CONFIGS}/{name}"


def broker_config(broker_id: int | None) -> str:
    """Returns the path of a broker's overrides; for None, that of the overrides shared by all
    brokers."""
    return f"{BROKER_CONFIGS}/{DEFAULT_BROKER if broker_id is None else broker_id}"


def user_config(name: str) -> str:
    check_user_name(name)
    return f"{USER_CONFIGS}/{user_node_name(name)}"


def deletion(name: str) -> str:
    check_topic_name(name)
    return f"{DELETIONS}/{name}"


def owed_deletion(broker_id: int, topic_id: UUID) -> str:
    return f"{OWED_DELETIONS}/{broker_id}-{topic_id}"


def owed_by(segment: str) -> tuple[int, UUID] | None:
    """Returns the broker and the topic of a deletion that the broker has yet to perform; None if
    the node is not one of these."""
    broker_id, _, topic_id = segment.partition("-")
    try:
        deletion = int(broker_id), UUID(topic_id)
    except ValueError:
        return None
    return deletion if owed_deletion(*deletion) == f"{OWED_DELETIONS}/{segment}" else None


def registry(schemas_topic: str) -> str:
    check_topic_name(schemas_topic)
    return f"{REGISTRIES}/{schemas_topic}"


def registry_writer(schemas_topic: str) -> str:
    return f"{registry(schemas_topic)}/writer"


def registry_epoch(schemas_topic: str) -> str:
    return f"{registry(schemas_topic)}/epoch"


def acl(pattern: ResourcePattern) -> str:
    kind, pattern_type = pattern.resource_type, pattern.pattern_type
    directory = f"{ACLS}/{pattern_type.name.lower()}/{kind.words}"
    return f"{directory}/{_segment(pattern.name)}"


def acl_pattern(directory: str, segment: str) -> ResourcePattern | None:
    """The pattern of a node in one of `ACL_DIRECTORIES`; None for any other node."""
    kind, pattern_type = ACL_DIRECTORIES[directory]
    name = unquote(segment, errors="replace")
    if not name or _segment(name) != segment:
        return None
    return ResourcePattern(kind, name, pattern_type)


def group(name: str) -> str:
    check_group_name(name)
    return f"{CONSUMERS}/{_segment(name) or _NAMELESS}"


def group_of(segment: str) -> str | None:
    """Returns the group that a node belongs to; None if it belongs to none."""
    if segment == _NAMELESS:
        return ""
    name = unquote(segment, errors="replace")
    try:
        check_group_name(name)
    except InvalidGroupName:
        return None
    return name if name and _segment(name) == segment else None


def group_fence(name: str, token: str) -> str:
    return f"{group(name)}/{FENCE}{token}"


def group_members(name: str) -> str:
    return f"{group(name)}/members"


def group_offsets(name: str) -> str:
    return f"{group(name)}/offsets"


def topic_offsets(name: str, topic_name: str) -> str:
    check_topic_name(topic_name)
    return f"{group(name)}/offsets/{topic_name}"


def group_ids(name: str) -> str:
    """The parent of Penstock members' ephemeral nodes."""
    return f"{group(name)}/ids"


def group_id(name: str, member: str) -> str:
    return f"{group_ids(name)}/{_segment(member)}"


def member_of(segment: str) -> str:
    """Returns the id of the member that a node belongs to."""
    return unquote(segment, errors="replace")


def group_owners(name: str) -> str:
    return f"{group(name)}/owners"


def topic_owners(name: str, topic_name: str) -> str:
    check_topic_name(topic_name)
    return f"{group_owners(name)}/{topic_name}"


def partition_owner(name: str, topic_name: str, partition: int) -> str:
    return f"{topic_owners(name, topic_name)}/{partition}"


def _segment(name: str) -> str:
    if name in {".", ".."}:  # rejected by ZooKeeper, and not escaped by `quote`
        return name.replace(".", "%2E")
    return quote(name, safe="*:@")
