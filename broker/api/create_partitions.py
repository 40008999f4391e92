"""CreatePartitions (key 37), versions 0–3.

Extends existing topics to a new total of partitions; only the controller serves it. If the client
does not name brokers for the new ones, assignment continues round the brokers where the topic's
earlier partitions stopped.

A client that has used up its quota for creating and deleting partitions is rejected from version 3
on (THROTTLING_QUOTA_EXCEEDED), and throttled before.

Not here: fewer partitions: Kafka has no such thing.
"""

import asyncio
from collections import Counter

import msgspec

from broker.access.authorization import Authorization
from broker.admin.topics import TopicAdmin
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


class Needs(msgspec.Struct, frozen=True):
    topics: TopicAdmin
    authorization: Authorization


async def handle(
    needs: Needs, request: CreatePartitionsRequest, caller: Caller
) -> CreatePartitionsResponse:
    rights = needs.authorization.of(caller)
    name_counts = Counter(topic.name for topic in request.topics)

    async def extend(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
        try:
            if name_counts[topic.name] > 1:
                raise ApiError(ErrorCode.invalid_request, "Duplicate topic in request.")
            rights.check_topic(Operation.ALTER, topic.name)
            await needs.topics.add_partitions(
                topic.name,
                topic.count,
                None
                if topic.assignments is None
                else tuple(assignment.broker_ids for assignment in topic.assignments),
                timeout_ms=request.timeout,
                validate_only=request.validate_only,
                mutations=caller.mutations,
            )
        except ApiError as error:
            return CreatePartitionsTopicResult(
                name=topic.name, error_code=error.code, error_message=error.message
            )
        return CreatePartitionsTopicResult(name=topic.name)

    results = await asyncio.gather(*(extend(topic) for topic in request.topics))
    return CreatePartitionsResponse(results=tuple(results))
