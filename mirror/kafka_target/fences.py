"""The right to write into partitions of an Apache Kafka target, taken from whoever had it.

Each partition has a producer of its own, by a transactional id: `penstock-mirror.NAME.TOPIC-0`. Who
asks for it gets the next epoch, and ends a transaction in which nothing was written. That leaves a
marker of that epoch in the partition: from there on its leader refuses all that an older worker
has under way. What stands before the marker will not change any more. The batches themselves are in
no transaction: they cost what an idempotent producer's cost, and are seen at once.

Blocks; asks the coordinators of all partitions, several at a time. What is in the way for a moment,
such as the transaction of a worker that was killed within one, is waited for.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from client.brokers import Brokers
from client.connection import BrokerConnection
from client.errors import Refused, check
from client.patience import Patience
from mirror.kafka_target.map_topic import Place
from mirror.kafka_target.runs import Writer
from wire.codec import Api
from wire.errors import ErrorCode
from wire.messages import add_partitions_to_txn, end_txn, find_coordinator, init_producer_id
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from wire.messages.end_txn import EndTxnRequest
from wire.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from wire.messages.init_producer_id import InitProducerIdRequest

_TIMEOUT_MS: Final = 60_000  # of the transaction, if its worker dies within it
_UNDER_WAY: Final = 50
_FIRST_OF_SEVERAL: Final = 4

Request = TypeVar("Request")
Response = TypeVar("Response")


def transactional_id(mirror: str, place: Place) -> str:
    return f"penstock-mirror.{mirror}.{place.topic}-{place.partition}"


def fence(brokers: Brokers, mirror: str, places: Iterable[Place]) -> dict[Place, Writer]:
    """Who may write in each from now on: whoever called this. The markers are on their way then.
    Raises ClientError."""
    ids = {transactional_id(mirror, place): place for place in places}
    coordinators = brokers.persist(lambda: _coordinators(brokers, tuple(ids)))
    writers: dict[str, Writer] = {}
    by_broker: dict[int, list[str]] = {}
    for each, broker in coordinators.items():
        by_broker.setdefault(broker, []).append(each)
    for broker, named in by_broker.items():
        asked = brokers.broker(broker)
        writers |= _begin(asked, named, brokers.patience())
        _add(asked, {each: (ids[each], writers[each]) for each in named}, brokers.patience())
        _end(asked, {each: writers[each] for each in named}, brokers.patience())
    return {ids[each]: writer for each, writer in writers.items()}


def _begin(asked: BrokerConnection, ids: Sequence[str], patience: Patience) -> dict[str, Writer]:
    found: dict[str, Writer] = {}

    def said(name: str, answer: init_producer_id.InitProducerIdResponse) -> ErrorCode:
        if answer.error_code is ErrorCode.none:
            found[name] = Writer(answer.producer_id, answer.producer_epoch)
        return answer.error_code

    def request(name: str) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=name, transaction_timeout=_TIMEOUT_MS)

    _ask_all(asked, ids, _Question(init_producer_id.API, request, said), patience)
    return found


def _add(
    asked: BrokerConnection, wanted: Mapping[str, tuple[Place, Writer]], patience: Patience
) -> None:
    def said(_: str, answer: add_partitions_to_txn.AddPartitionsToTxnResponse) -> ErrorCode:
        codes = (
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        )
        return next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)

    def request(name: str) -> AddPartitionsToTxnRequest:
        place, writer = wanted[name]
        topic = AddPartitionsToTxnTopic(name=place.topic, partitions=(place.partition,))
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=writer.producer_id,
            v3_and_below_producer_epoch=writer.epoch,
            v3_and_below_topics=(topic,),
        )

    question = _Question(add_partitions_to_txn.API, request, said)
    _ask_all(asked, tuple(wanted), question, patience)


def _end(asked: BrokerConnection, writers: Mapping[str, Writer], patience: Patience) -> None:
    def said(_: str, answer: end_txn.EndTxnResponse) -> ErrorCode:
        return answer.error_code

    def request(name: str) -> EndTxnRequest:
        writer = writers[name]
        return EndTxnRequest(
            transactional_id=name,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            committed=True,
        )

    _ask_all(asked, tuple(writers), _Question(end_txn.API, request, said), patience)


class _Question(msgspec.Struct, Generic[Request, Response], frozen=True):
    """What is asked of each transactional id, and what became of it."""

    api: Api[Request, Response]
    request: Callable[[str], Request]
    said: Callable[[str, Response], ErrorCode]


def _ask_all(
    asked: BrokerConnection,
    names: Sequence[str],
    question: _Question[Request, Response],
    patience: Patience,
) -> None:
    """Until each has succeeded."""
    while names:
        refused: dict[str, Refused] = {}
        for first in range(0, len(names), _UNDER_WAY):
            some = names[first : first + _UNDER_WAY]
            pending = [(name, asked.send(question.api, question.request(name))) for name in some]
            for name, each in pending:
                code = question.said(name, asked.receive(each))
                if code is not ErrorCode.none:
                    refused[name] = Refused(f"transactional id {name}", code)
        for error in refused.values():
            patience.wait(error)  # which raises what is final
            break
        names = tuple(refused)


def _coordinators(brokers: Brokers, ids: Sequence[str]) -> dict[str, int]:
    api, asked = find_coordinator.API, brokers.any_broker()
    brokers.refresh([])
    if asked.version(api) >= _FIRST_OF_SEVERAL:
        wanted = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=tuple(ids))
        answers = {each.key: each for each in asked.call(api, wanted).coordinators}
        for name, each in answers.items():
            check(each.error_code, f"coordinator of {name}", each.error_message)
        return {name: each.node_id for name, each in answers.items()}
    found = {}
    for name in ids:
        answer = asked.call(api, FindCoordinatorRequest(key=name, key_type=TRANSACTION))
        check(answer.error_code, f"coordinator of {name}", answer.error_message)
        found[name] = answer.node_id
    return found
