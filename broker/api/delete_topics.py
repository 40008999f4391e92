"""DeleteTopics (key 20), versions 1–6.

Deletes topics by name, or from version 6 on by id; only the controller serves it. A deleted topic
leaves the map at once; its files are removed afterwards. A topic is answered when it has left the
map, or with REQUEST_TIMED_OUT if that takes longer than the client waits.

A client that has used up its quota for creating and deleting partitions is rejected from version 5
on (THROTTLING_QUOTA_EXCEEDED), and throttled before.

Ids are not secret, names may be: a client that asks by id and may not describe the topic is not
told its name.
"""

import asyncio
from collections import Counter

import msgspec

from broker.access.authorization import Authorization
from broker.admin.topics import TopicAdmin
from broker.connections.caller import Caller
from broker.errors import ApiError
from cluster.view import ClusterView
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


class Needs(msgspec.Struct, frozen=True):
    cluster: ClusterView
    topics: TopicAdmin
    authorization: Authorization


async def handle(
    needs: Needs, request: DeleteTopicsRequest, caller: Caller
) -> DeleteTopicsResponse:
    rights = needs.authorization.of(caller)
    named_topics = (DeleteTopicState(name=name) for name in request.topic_names)
    topics = (*request.topics, *named_topics)
    snapshot = needs.cluster.snapshot
    names = [
        snapshot.topic_names.get(topic.topic_id) if topic.topic_id else topic.name
        for topic in topics
    ]
    name_counts = Counter(names)

    async def delete(topic: DeleteTopicState, name: str | None) -> DeletableTopicResult:
        try:
            if topic.topic_id and topic.name is not None:
                raise ApiError(
                    ErrorCode.invalid_request, "a topic must be named by name or by id, not by both"
                )
            if name is None:
                raise _unknown(topic)
            rights.check_topic(Operation.DELETE, name)
            if name_counts[name] > 1:
                raise ApiError(ErrorCode.invalid_request, "Found multiple entries for this topic.")
            await needs.topics.delete(
                name, topic.topic_id, timeout_ms=request.timeout, mutations=caller.mutations
            )
        except ApiError as error:
            is_hidden = name is None or not rights.may_on_topic(Operation.DESCRIBE, name)
            return DeletableTopicResult(
                name=topic.name if is_hidden else name,
                topic_id=topic.topic_id,
                error_code=error.code,
                error_message=error.message,
            )
        return DeletableTopicResult(name=name, topic_id=topic.topic_id)

    results = await asyncio.gather(*(delete(*topic) for topic in zip(topics, names, strict=True)))
    return DeleteTopicsResponse(responses=tuple(results))


def _unknown(topic: DeleteTopicState) -> ApiError:
    if topic.topic_id is None:
        return ApiError(ErrorCode.invalid_request, "neither a name nor an id was given")
    return ApiError(ErrorCode.unknown_topic_id, f"no topic has the id {topic.topic_id}")
