"""Metadata (key 3): returns brokers, topics, partitions and leaders.

Two version differences are hidden from handlers: "all topics" is null (in version 0 an empty list),
and topics are requested by id only from version 12 on (versions 10 and 11 have the field, but no
response for it).
"""

import uuid

from msgspec import Struct
from msgspec.structs import replace

from wire.errors import ErrorCode
from wire.framing.codec import Api, Kept
from wire.framing.primitives import MessageBuffer, Writer

NOT_ASKED = -(2**31)  # authorized operations were not requested


class MetadataRequestTopic(Struct, frozen=True, kw_only=True, gc=False):
    topic_id: uuid.UUID | None = None
    name: str | None


class MetadataRequest(Struct, frozen=True, kw_only=True, gc=False):
    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool = True
    include_topic_authorized_operations: bool = False
    include_cluster_authorized_operations: bool = False


class MetadataResponseBroker(Struct, frozen=True, kw_only=True, gc=False):
    node_id: int
    host: str
    port: int
    rack: str | None = None


class MetadataResponsePartition(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    partition_index: int
    leader_id: int
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class MetadataResponseTopic(Kept, frozen=True, kw_only=True, dict=True):
    error_code: ErrorCode = ErrorCode.none
    name: str | None
    topic_id: uuid.UUID | None = None
    is_internal: bool = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: int = NOT_ASKED


class AbsentTopic(MetadataResponseTopic, frozen=True, kw_only=True, dict=True):
    """A topic that does not exist or is hidden. Its encoding is not cached, as it is sent once."""

    def encoded(self, write: Writer) -> bytes:
        out = MessageBuffer()
        write(out, self)
        return bytes(out)


class MetadataResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[MetadataResponseTopic, ...]
    cluster_authorized_operations: int = NOT_ASKED


class _MetadataApi(Api[MetadataRequest, MetadataResponse]):
    def levelled(self, version: int, request: MetadataRequest) -> MetadataRequest:
        if version == 0:
            return replace(request, topics=request.topics or None)
        if version in {10, 11} and request.topics:
            named_topics = (MetadataRequestTopic(name=topic.name or "") for topic in request.topics)
            return replace(request, topics=tuple(named_topics))
        return request


API = _MetadataApi(
    key=3,
    name="Metadata",
    versions=range(13),
    request=MetadataRequest,
    response=MetadataResponse,
)
