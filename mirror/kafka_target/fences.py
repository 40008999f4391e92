"""Takes over the right to write to partitions of an Apache Kafka target.

Each partition has its own producer with the transactional id `penstock-mirror.NAME.TOPIC-0`. A
worker that requests it gets the next epoch, and commits an empty transaction. This leaves a marker
of that epoch in the partition: from there on, the leader rejects what older workers still have in
flight, and what precedes the marker is final. The batches are not written in transactions: they
cost as much as an idempotent producer's, and are visible immediately.

Blocks; asks the coordinators of all partitions with requests in flight together. Temporary
obstacles, such as an open transaction of a worker that was killed, are waited out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.errors import Refused, check
from client.patience import Patience
from mirror.kafka_target.map_topic import TargetPartition
from mirror.kafka_target.runs import Writer
from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.messages import add_partitions_to_txn, end_txn, find_coordinator, init_producer_id
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from wire.messages.end_txn import EndTxnRequest
from wire.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from wire.messages.init_producer_id import InitProducerIdRequest

_TIMEOUT_MS: Final = 60_000  # before the coordinator aborts the transaction of a dead worker
_UNDER_WAY: Final = 50
_FIRST_BATCHED_VERSION: Final = 4

Request = TypeVar("Request")
Response = TypeVar("Response")


def transactional_id(mirror: str, place: TargetPartition) -> str:
    return f"penstock-mirror.{mirror}.{place.topic}-{place.partition}"


def fence(
    brokers: Brokers, mirror: str, places: Iterable[TargetPartition]
) -> dict[TargetPartition, Writer]:
    """Becomes the only writer of each partition, and returns the writers. The brokers may still be
    writing the transaction markers. Raises ClientError."""
    ids = {transactional_id(mirror, partition): partition for partition in places}
    coordinators = brokers.persist(lambda: _coordinators(brokers, tuple(ids)))
    writers: dict[str, Writer] = {}
    by_broker: dict[int, list[str]] = {}
    for name, broker in coordinators.items():
        by_broker.setdefault(broker, []).append(name)
    for broker, names in by_broker.items():
        connection = brokers.broker(broker)
        writers |= _begin(connection, names, brokers.patience())
        partitions = {name: (ids[name], writers[name]) for name in names}
        _add(connection, partitions, brokers.patience())
        _end(connection, {name: writers[name] for name in names}, brokers.patience())
    return {ids[name]: writer for name, writer in writers.items()}


def _begin(
    coordinator: BrokerConnection, ids: Sequence[str], patience: Patience
) -> dict[str, Writer]:
    writers: dict[str, Writer] = {}

    def outcome(name: str, answer: init_producer_id.InitProducerIdResponse) -> ErrorCode:
        if answer.error_code is ErrorCode.none:
            writers[name] = Writer(answer.producer_id, answer.producer_epoch)
        return answer.error_code

    def request(name: str) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=name, transaction_timeout=_TIMEOUT_MS)

    _ask_all(coordinator, ids, _Question(init_producer_id.API, request, outcome), patience)
    return writers


def _add(
    coordinator: BrokerConnection,
    writers: Mapping[str, tuple[TargetPartition, Writer]],
    patience: Patience,
) -> None:
    def outcome(_: str, answer: add_partitions_to_txn.AddPartitionsToTxnResponse) -> ErrorCode:
        codes = (
            partition.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        )
        return next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)

    def request(name: str) -> AddPartitionsToTxnRequest:
        partition, writer = writers[name]
        topic = AddPartitionsToTxnTopic(name=partition.topic, partitions=(partition.partition,))
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=writer.producer_id,
            v3_and_below_producer_epoch=writer.epoch,
            v3_and_below_topics=(topic,),
        )

    question = _Question(add_partitions_to_txn.API, request, outcome)
    _ask_all(coordinator, tuple(writers), question, patience)


def _end(coordinator: BrokerConnection, writers: Mapping[str, Writer], patience: Patience) -> None:
    def outcome(_: str, answer: end_txn.EndTxnResponse) -> ErrorCode:
        return answer.error_code

    def request(name: str) -> EndTxnRequest:
        writer = writers[name]
        return EndTxnRequest(
            transactional_id=name,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            committed=True,
        )

    _ask_all(coordinator, tuple(writers), _Question(end_txn.API, request, outcome), patience)


class _Question(msgspec.Struct, Generic[Request, Response], frozen=True):
    """A request for each transactional id, and the error code of its answer."""

    api: Api[Request, Response]
    request: Callable[[str], Request]
    outcome: Callable[[str, Response], ErrorCode]


def _ask_all(
    coordinator: BrokerConnection,
    names: Sequence[str],
    question: _Question[Request, Response],
    patience: Patience,
) -> None:
    """Ask until all have succeeded."""
    while names:
        refusals: dict[str, Refused] = {}
        for first in range(0, len(names), _UNDER_WAY):
            batch = names[first : first + _UNDER_WAY]
            pending = [
                (name, coordinator.send(question.api, question.request(name))) for name in batch
            ]
            for name, request in pending:
                code = question.outcome(name, coordinator.receive(request))
                if code is not ErrorCode.none:
                    refusals[name] = Refused(f"transactional id {name}", code)
        for error in refusals.values():
            patience.wait(error)  # raises permanent errors
            break
        names = tuple(refusals)


def _coordinators(brokers: Brokers, ids: Sequence[str]) -> dict[str, int]:
    api, broker = find_coordinator.API, brokers.any_broker()
    brokers.refresh([])
    if broker.version(api) >= _FIRST_BATCHED_VERSION:
        coordinator_request = FindCoordinatorRequest(
            key_type=TRANSACTION, coordinator_keys=tuple(ids)
        )
        answers = {
            result.key: result for result in broker.call(api, coordinator_request).coordinators
        }
        for name, result in answers.items():
            check(result.error_code, f"coordinator of {name}", result.error_message)
        return {name: result.node_id for name, result in answers.items()}
    coordinators = {}
    for name in ids:
        answer = broker.call(api, FindCoordinatorRequest(key=name, key_type=TRANSACTION))
        check(answer.error_code, f"coordinator of {name}", answer.error_message)
        coordinators[name] = answer.node_id
    return coordinators
