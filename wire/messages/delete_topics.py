"""DeleteTopics (key 20): topics, by name or (from version 6) by id, and all they hold.

Left out: nothing.
"""

import uuid
from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicState:
    name: str | None = None
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    topics: tuple[DeleteTopicState, ...] = ()  # from version 6
    topic_names: tuple[str, ...] = ()  # before
    timeout: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableTopicResult:
    name: str | None
    topic_id: uuid.UUID | None = None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse:
    throttle_time: int = 0
    responses: tuple[DeletableTopicResult, ...]


API = Api(
    key=20,
    name="DeleteTopics",
    versions=range(1, 7),
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
)
