"""CreateTopics (key 19): creates topics with partitions and configs.

`topic_config_error_code` is always 0, because configs are never hidden from a topic's creator.
"""

import uuid

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class CreatableReplicaAssignment(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    broker_ids: tuple[int, ...] = ()


class CreatableTopicConfig(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    value: str | None


class CreatableTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


class CreateTopicsRequest(Struct, frozen=True, kw_only=True, gc=False):
    topics: tuple[CreatableTopic, ...]
    timeout: int = 60_000
    validate_only: bool = False


class CreatableTopicConfigs(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    value: str | None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


class CreatableTopicResult(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    topic_id: uuid.UUID | None = None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatableTopicConfigs, ...] | None = None


class CreateTopicsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    topics: tuple[CreatableTopicResult, ...]


API = Api(
    key=19,
    name="CreateTopics",
    versions=range(2, 8),
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
)
