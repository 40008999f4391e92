"""Which broker coordinates a group, and questions about many groups, put to each coordinator.

All groups are looked up with one request where brokers speak version 4 of FindCoordinator, and else
with one for each, all of them under way at a time.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from client.brokers import Brokers
from client.connection import BrokerConnection
from client.errors import Refused, check
from client.rights import on_group
from wire.acls import Operation
from wire.codec import Api
from wire.errors import ErrorCode
from wire.messages import find_coordinator
from wire.messages.find_coordinator import (
    GROUP,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

TOGETHER: Final = 200  # groups in one request
_UNDER_WAY: Final = 50  # requests on one connection: what both sides have room for
_FIRST_OF_SEVERAL: Final = 4
_TO_ASK: Final = (Operation.DESCRIBE, Operation.READ)

Request = TypeVar("Request")
Response = TypeVar("Response")
T = TypeVar("T")

Ask = Callable[[BrokerConnection, int, Sequence[str]], Iterable[tuple[str, T]]]
"""Asks a coordinator, which has that id, about some of its groups: TOGETHER at most. What it has
yielded before it raises an error is kept."""


def coordinators(
    brokers: Brokers, groups: Iterable[str], to: Sequence[Operation] = _TO_ASK
) -> dict[str, int]:
    """The id of each group's coordinator. Asks once; that there is none may be a passing error.
    `to` is what is wanted with them, for whoever reads that it is not allowed: any of these."""
    found: dict[str, int] = {}
    known = brokers.refresh([])
    asked = brokers.any_broker()
    for each in _look_up(asked, list(dict.fromkeys(groups))):
        what = f"coordinator of group {each.key}"
        needs = on_group(brokers.who, each.key, *to)
        check(each.error_code, what, each.error_message, needs=needs)
        if each.node_id not in known.brokers:
            raise Refused(what, ErrorCode.coordinator_not_available)
        found[each.key] = each.node_id
    return found


def coordinator(brokers: Brokers, group: str, *to: Operation) -> BrokerConnection:
    """The broker that coordinates the group. Asks once."""
    return brokers.broker(coordinators(brokers, [group], to)[group])


def ask_coordinators(brokers: Brokers, groups: Iterable[str], ask: Ask[T]) -> dict[str, T]:
    """What the coordinators say of these groups, by group, in order. Tried again, as far as there
    is no answer yet, while errors are passing ones."""
    wanted = list(dict.fromkeys(groups))
    found: dict[str, T] = {}

    def attempt() -> None:
        missing = [group for group in wanted if group not in found]
        by_broker: dict[int, list[str]] = {}
        if missing:
            for group, broker in coordinators(brokers, missing).items():
                by_broker.setdefault(broker, []).append(group)
        for broker, coordinated in by_broker.items():
            for some in pieces(coordinated, TOGETHER):
                found.update(ask(brokers.broker(broker), broker, some))  # one after the other

    brokers.persist(attempt)
    return {group: found[group] for group in wanted}


def ask_each(
    asked: BrokerConnection, api: Api[Request, Response], requests: Sequence[Request]
) -> Iterable[Response]:
    """The answers to requests of which several are under way at a time."""
    for some in pieces(requests, _UNDER_WAY):
        for pending in [asked.send(api, each) for each in some]:
            yield asked.receive(pending)


def pieces(sequence: Sequence[T], most: int) -> Iterable[Sequence[T]]:
    return (sequence[at : at + most] for at in range(0, len(sequence), most))


def _look_up(asked: BrokerConnection, groups: Sequence[str]) -> Iterable[Coordinator]:
    api = find_coordinator.API
    if asked.version(api) >= _FIRST_OF_SEVERAL:
        for some in pieces(groups, TOGETHER):
            request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=tuple(some))
            yield from asked.call(api, request).coordinators
        return
    requests = [FindCoordinatorRequest(key=group, key_type=GROUP) for group in groups]
    for group, answer in zip(groups, ask_each(asked, api, requests), strict=True):
        yield _alone(group, answer)


def _alone(group: str, answer: FindCoordinatorResponse) -> Coordinator:
    """Up to version 3 the answer is about one group, which it does not name."""
    return Coordinator(
        key=group,
        node_id=answer.node_id,
        error_code=answer.error_code,
        error_message=answer.error_message,
    )
