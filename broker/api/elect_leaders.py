"""ElectLeaders (key 43), versions 0–2.

Elects leaders for some partitions or for all: the preferred replica, or, in an unclean election
where no in-sync replica is alive, the first live one, even if that loses data. Only the controller
serves it. A request about all partitions is answered only for those that needed an election.
"""

from collections.abc import Mapping

import msgspec

from broker.access.authorization import Authorization
from broker.admin.leaders import Key, LeaderAdmin
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


class Needs(msgspec.Struct, frozen=True):
    leaders: LeaderAdmin
    authorization: Authorization


async def handle(
    needs: Needs, request: ElectLeadersRequest, caller: Caller
) -> ElectLeadersResponse:
    requested_keys = _wanted(request)
    try:
        needs.authorization.of(caller).check_cluster(Operation.ALTER)
        if request.election_type not in set(ElectionType):
            raise ApiError(
                ErrorCode.invalid_request, f"unknown election type {request.election_type}"
            )
        outcomes = await needs.leaders.elect(
            requested_keys,
            unclean=request.election_type == ElectionType.UNCLEAN,
            timeout_ms=request.timeout,
        )
    except ApiError as error:
        return ElectLeadersResponse(
            error_code=error.code,
            replica_election_results=_results(dict.fromkeys(requested_keys or (), error)),
        )
    return ElectLeadersResponse(replica_election_results=_results(outcomes))


def _wanted(request: ElectLeadersRequest) -> list[Key] | None:
    if request.topic_partitions is None:
        return None
    return [
        (topic.topic, index) for topic in request.topic_partitions for index in topic.partitions
    ]


def _results(outcomes: Mapping[Key, ApiError | None]) -> tuple[ReplicaElectionResult, ...]:
    results_by_topic: dict[str, list[PartitionResult]] = {}
    for (topic, index), error in outcomes.items():
        results_by_topic.setdefault(topic, []).append(_result(index, error))
    return tuple(
        ReplicaElectionResult(topic=topic, partition_result=tuple(results))
        for topic, results in results_by_topic.items()
    )


def _result(index: int, error: ApiError | None) -> PartitionResult:
    if error is None:
        return PartitionResult(partition_id=index)
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
