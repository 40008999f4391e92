"""DeleteTopics (key 20): deletes topics and their data, by name or (from version 6) by id."""

import uuid

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class DeleteTopicState(Struct, frozen=True, kw_only=True, gc=False):
    name: str | None = None
    topic_id: uuid.UUID | None = None


class DeleteTopicsRequest(Struct, frozen=True, kw_only=True, gc=False):
    topics: tuple[DeleteTopicState, ...] = ()  # from version 6
    topic_names: tuple[str, ...] = ()  # up to version 5
    timeout: int


class DeletableTopicResult(Struct, frozen=True, kw_only=True, gc=False):
    name: str | None
    topic_id: uuid.UUID | None = None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class DeleteTopicsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    responses: tuple[DeletableTopicResult, ...]


API = Api(
    key=20,
    name="DeleteTopics",
    versions=range(1, 7),
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
)
