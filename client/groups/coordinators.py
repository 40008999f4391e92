"""Finds the coordinators of groups, and queries many groups through each coordinator.

All groups are looked up in one request where brokers support version 4 of FindCoordinator;
otherwise each takes a request, several in flight at a time.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.errors import Refused, check
from client.rights import on_group
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.messages import find_coordinator
from wire.messages.find_coordinator import (
    GROUP,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

TOGETHER: Final = 200  # groups in a request
_UNDER_WAY: Final = 50  # requests on one connection, as many as both sides can buffer
_FIRST_OF_SEVERAL: Final = 4
_TO_ASK: Final = (Operation.DESCRIBE, Operation.READ)

Request = TypeVar("Request")
Response = TypeVar("Response")
T = TypeVar("T")

Ask = Callable[[BrokerConnection, int, Sequence[str]], Iterable[tuple[str, T]]]
"""Queries a coordinator (connection and broker id) about up to TOGETHER of its groups. Results
that it yielded before it raises an error are kept."""


def coordinators(
    brokers: Brokers, groups: Iterable[str], to: Sequence[Operation] = _TO_ASK
) -> dict[str, int]:
    """Returns the coordinator's broker id for each group. Tries once; a group may lack a
    coordinator for a while. `to` are the intended operations, for the error if none is allowed."""
    broker_ids: dict[str, int] = {}
    metadata = brokers.refresh([])
    connection = brokers.any_broker()
    for answer in _look_up(connection, list(dict.fromkeys(groups))):
        subject = f"coordinator of group {answer.key}"
        needs = on_group(brokers.who, answer.key, *to)
        check(answer.error_code, subject, answer.error_message, needs=needs)
        if answer.node_id not in metadata.brokers:
            raise Refused(subject, ErrorCode.coordinator_not_available)
        broker_ids[answer.key] = answer.node_id
    return broker_ids


def coordinator(brokers: Brokers, group: str, *to: Operation) -> BrokerConnection:
    """Returns a connection to the group's coordinator. Tries once."""
    return brokers.broker(coordinators(brokers, [group], to)[group])


def ask_coordinators(brokers: Brokers, groups: Iterable[str], ask: Ask[T]) -> dict[str, T]:
    """Returns the coordinators' answers about these groups, in order. Groups without an answer are
    retried while errors are retriable."""
    group_names = list(dict.fromkeys(groups))
    answers: dict[str, T] = {}

    def attempt() -> None:
        missing_groups = [group for group in group_names if group not in answers]
        groups_by_broker: dict[int, list[str]] = {}
        if missing_groups:
            for group, broker in coordinators(brokers, missing_groups).items():
                groups_by_broker.setdefault(broker, []).append(group)
        for broker, broker_groups in groups_by_broker.items():
            for portion in pieces(broker_groups, TOGETHER):
                answers.update(ask(brokers.broker(broker), broker, portion))  # one after the other

    brokers.persist(attempt)
    return {group: answers[group] for group in group_names}


def ask_each(
    connection: BrokerConnection, api: Api[Request, Response], requests: Sequence[Request]
) -> Iterable[Response]:
    """Yields the responses to many requests, and keeps several requests in flight."""
    for portion in pieces(requests, _UNDER_WAY):
        for pending_response in [connection.send(api, request) for request in portion]:
            yield connection.receive(pending_response)


def pieces(sequence: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (sequence[start : start + size] for start in range(0, len(sequence), size))


def _look_up(connection: BrokerConnection, groups: Sequence[str]) -> Iterable[Coordinator]:
    api = find_coordinator.API
    if connection.version(api) >= _FIRST_OF_SEVERAL:
        for portion in pieces(groups, TOGETHER):
            request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=tuple(portion))
            yield from connection.call(api, request).coordinators
        return
    requests = [FindCoordinatorRequest(key=group, key_type=GROUP) for group in groups]
    for group, answer in zip(groups, ask_each(connection, api, requests), strict=True):
        yield _alone(group, answer)


def _alone(group: str, response: FindCoordinatorResponse) -> Coordinator:
    """Up to version 3 a response is about one group and does not name it."""
    return Coordinator(
        key=group,
        node_id=response.node_id,
        error_code=response.error_code,
        error_message=response.error_message,
    )
