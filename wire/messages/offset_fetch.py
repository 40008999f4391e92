"""OffsetFetch (key 9): returns the committed offsets of groups.

Up to version 7 a request is for one group, from version 8 for several. That is hidden from handlers
and callers: both use `groups`; the fields beside it are older versions' form on the wire. Older
responses do not name their group. Version 1 has errors only by partition: a refused group is
answered with the requested partitions, each with the group's error.
"""

from msgspec import Struct
from msgspec.structs import replace

from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.framing.primitives import MessageBuffer

NO_OFFSET = -1  # no offset is committed

_FIRST_WITH_A_GROUPS_ERROR = 2
_FIRST_OF_SEVERAL = 8


class OffsetFetchRequestTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partition_indexes: tuple[int, ...] = ()


class OffsetFetchRequestGroup(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str
    topics: tuple[OffsetFetchRequestTopic, ...] | None
    """None requests all of the group's offsets; from version 2 on."""


class OffsetFetchRequest(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str = ""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()
    groups: tuple[OffsetFetchRequestGroup, ...] = ()
    require_stable: bool = False


class OffsetFetchResponsePartition(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    committed_offset: int = NO_OFFSET
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.none


class OffsetFetchResponseTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[OffsetFetchResponsePartition, ...]


class OffsetFetchResponseGroup(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.none


class OffsetFetchResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.none
    groups: tuple[OffsetFetchResponseGroup, ...] = ()


class _OffsetFetchApi(Api[OffsetFetchRequest, OffsetFetchResponse]):
    def levelled(self, version: int, request: OffsetFetchRequest) -> OffsetFetchRequest:
        if version < _FIRST_OF_SEVERAL:
            group = OffsetFetchRequestGroup(group_id=request.group_id, topics=request.topics)
            return replace(request, groups=(group,))
        return request

    def encode_request(self, version: int, request: OffsetFetchRequest) -> MessageBuffer:
        if version < _FIRST_OF_SEVERAL and request.groups:
            (group,) = request.groups
            request = replace(request, group_id=group.group_id, topics=group.topics)
        return super().encode_request(version, request)

    def lowered(self, version: int, response: OffsetFetchResponse) -> OffsetFetchResponse:
        if version < _FIRST_OF_SEVERAL and response.groups:
            (group,) = response.groups
            topics = group.topics
            if version < _FIRST_WITH_A_GROUPS_ERROR and group.error_code:
                topics = tuple(_refused(topic, group.error_code) for topic in topics)
            response = replace(response, topics=topics, error_code=group.error_code)
        return response

    def decode_response(self, version: int, body: memoryview) -> OffsetFetchResponse:
        response = super().decode_response(version, body)
        if version < _FIRST_OF_SEVERAL:
            group = OffsetFetchResponseGroup(
                group_id="", topics=response.topics, error_code=response.error_code
            )
            return replace(response, groups=(group,))
        return response


def _refused(topic: OffsetFetchResponseTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    partitions = (replace(partition, error_code=code) for partition in topic.partitions)
    return replace(topic, partitions=tuple(partitions))


API = _OffsetFetchApi(
    key=9,
    name="OffsetFetch",
    versions=range(1, 9),
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
)
