"""A broker that refuses what a test wants it to refuse, with codes that no broker has on demand.

One partition of each topic that is asked for; sequences are checked by the rules of the real one
(`tests.client.partition_model`), and what is taken can be fetched.
"""

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

import msgspec

from broker.storage.errors import SequenceError
from broker.storage.state.producers import ProducerStates
from ledger.names import LEDGER_TOPIC
from schemas.envelope import Decoder
from tests.agent.shipping.agent_side import schema_of
from tests.client.scripted_broker import ScriptedBroker, frame, greeting
from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.framing.requests import API_VERSIONS_KEY, read_body
from wire.framing.requests import read_header as read_request
from wire.messages import (
    describe_configs,
    describe_producers,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)
from wire.record_batches.batch import BatchHeader, headers, read_header, stamp
from wire.record_batches.records import Record, records

# Each of them in one version.
SERVED = {
    metadata: 12,
    produce: 8,
    fetch: 11,
    list_offsets: 5,
    init_producer_id: 1,
    describe_configs: 2,
    describe_producers: 0,
}
APIS: dict[int, Api[Any, Any]] = {each.API.key: each.API for each in SERVED}
VERSIONS = {
    API_VERSIONS_KEY: (0, 3),
    **{each.API.key: (version, version) for each, version in SERVED.items()},
}


class Outcome(msgspec.Struct, frozen=True):
    """What becomes of a batch: whether it is written, if its numbers allow it, and what is said of
    it. Without a code, the connection breaks."""

    written: bool
    code: ErrorCode | None


TAKEN = Outcome(True, ErrorCode.none)
Rule = Callable[[str, memoryview], Outcome]
"""Of a topic and a batch."""


class Log(msgspec.Struct):
    """One partition."""

    data: bytearray = msgspec.field(default_factory=bytearray)
    first: int = 0
    end: int = 0
    producers: ProducerStates = msgspec.field(default_factory=ProducerStates)
    shown: int | None = None  # up to where consumers see it; None: all

    @property
    def high_watermark(self) -> int:
        return self.end if self.shown is None else self.shown

    def append(self, batch: bytearray) -> tuple[ErrorCode, int]:
        header = read_header(batch)
        try:
            known = self.producers.check(header)
        except SequenceError as error:
            return error.code, -1
        if known is not None:
            return ErrorCode.none, known
        stamp(batch, self.end, 0)
        self.producers.record(header, self.end, 0)
        self.data += batch
        self.end += header.record_count
        return ErrorCode.none, self.end - header.record_count

    def delete_before_end(self) -> None:
        """Retention has come as far as it can."""
        self.data.clear()
        self.first = self.end


class RefusingBroker:
    """`with RefusingBroker(rule) as broker`."""

    def __init__(self, rule: Rule = lambda topic, batch: TAKEN) -> None:
        self.rule = rule
        self.logs: defaultdict[str, Log] = defaultdict(Log)
        self.topic_id = uuid.uuid4()
        self.forbidden: dict[int, ErrorCode] = {}  # by the keys of APIs
        self.no_topics: ErrorCode = ErrorCode.none
        self.missing: set[str] = set()  # topics
        self.configs: dict[str, str] = {}  # of all of them
        self.identities = 0
        self._lock = threading.Lock()
        self._scripted = ScriptedBroker([self._answer] * 100_000)

    def __enter__(self) -> Self:
        self._scripted.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._scripted.close()

    @property
    def bootstrap(self) -> str:
        return str(self._scripted.address)

    def requests(self, key: int) -> int:
        """How many of this API there were."""
        return sum(
            read_request(memoryview(each)).api_key == key for each in self._scripted.requests
        )

    def events(self, topic: str) -> list[dict[str, Any]]:
        decoder = Decoder(schema_of)
        return [decoder.decode(record.value or b"") for record in self.records(topic)]

    def records(self, topic: str) -> list[Record]:
        data = bytes(self.logs[topic].data)
        return [
            record
            for at, header in headers(data)
            for record in records(data[at : at + header.size])
        ]

    def passages(self) -> list[dict[str, Any]]:
        """What the ledger says of batches, and of bytes without events."""
        return [each for entry in self.events(LEDGER_TOPIC) for each in entry["passages"]]

    def offsets_said(self, topic: str) -> list[int]:
        """How many of the topic, in the ledger."""
        passages = [each for each in self.passages() if each["topic"] == topic]
        return [each["count"] for passage in passages for each in passage["offsets"]]

    def messages(self, topic: str) -> list[str]:
        return [event["message"] for event in self.events(topic)]

    def headers(self, topic: str) -> list[BatchHeader]:
        return [header for _, header in headers(bytes(self.logs[topic].data))]

    def _answer(self, request: memoryview) -> bytes | None:
        header = read_request(request)
        if header.api_key == API_VERSIONS_KEY:
            return greeting(request, VERSIONS)
        api = APIS[header.api_key]
        flexible = api.is_flexible(header.api_version)
        body = read_body(request, flexible=flexible)
        asked = api.decode_request(header.api_version, body)
        with self._lock:
            answer = _ANSWERS[header.api_key](self, asked)
        if answer is None:
            return None
        encoded = bytes(api.encode_response(header.api_version, answer))
        return frame(header.correlation_id, encoded, tagged=flexible)

    def _metadata(self, asked: Any) -> metadata.MetadataResponse:
        address = self._scripted.address
        partition = metadata.MetadataResponsePartition(
            partition_index=0, leader_id=1, leader_epoch=4
        )
        return metadata.MetadataResponse(
            brokers=(
                metadata.MetadataResponseBroker(node_id=1, host=address.host, port=address.port),
            ),
            controller_id=1,
            topics=tuple(
                metadata.MetadataResponseTopic(
                    name=each.name,
                    topic_id=self.topic_id,
                    error_code=self._trouble_with(each.name),
                    partitions=() if self._trouble_with(each.name) else (partition,),
                )
                for each in asked.topics or ()
            ),
        )

    def _trouble_with(self, topic: str) -> ErrorCode:
        missing = topic in self.missing
        return ErrorCode.unknown_topic_or_partition if missing else self.no_topics

    def _produce(self, asked: Any) -> produce.ProduceResponse | None:
        answers = []
        for topic in asked.topic_data:
            (part,) = topic.partition_data
            outcome = self.rule(topic.name, part.records)
            code, offset = outcome.code, -1
            if outcome.written:
                found, offset = self.logs[topic.name].append(bytearray(part.records))
                code = found if code is ErrorCode.none else code
            if code is None:
                return None
            offset = offset if code is ErrorCode.none else -1
            said = produce.PartitionProduceResponse(index=0, error_code=code, base_offset=offset)
            answers.append(
                produce.TopicProduceResponse(name=topic.name, partition_responses=(said,))
            )
        return produce.ProduceResponse(responses=tuple(answers))

    def _identity(self, asked: Any) -> init_producer_id.InitProducerIdResponse:
        if code := self.forbidden.get(init_producer_id.API.key):
            return init_producer_id.InitProducerIdResponse(error_code=code)
        self.identities += 1
        return init_producer_id.InitProducerIdResponse(
            producer_id=1_000 + self.identities, producer_epoch=0
        )

    def _offsets(self, asked: Any) -> list_offsets.ListOffsetsResponse:
        code = self.forbidden.get(list_offsets.API.key, ErrorCode.none)
        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=part.partition_index,
                            error_code=code,
                            offset=self._bound(topic.name, part.timestamp),
                        )
                        for part in topic.partitions
                    ),
                )
                for topic in asked.topics
            )
        )

    def _bound(self, topic: str, timestamp: int) -> int:
        log = self.logs[topic]
        return log.first if timestamp == list_offsets.EARLIEST else log.high_watermark

    def _fetch(self, asked: Any) -> fetch.FetchResponse:
        (topic,) = asked.topics
        (part,) = topic.partitions
        log = self.logs[topic.topic]
        data = bytes(log.data)
        shown = [(at, each) for at, each in headers(data) if each.base_offset < log.high_watermark]
        later = [at for at, each in shown if each.next_offset > part.fetch_offset]
        end = shown[-1][0] + shown[-1][1].size if shown else 0
        found = fetch.PartitionData(
            partition_index=0,
            error_code=self.forbidden.get(fetch.API.key, ErrorCode.none),
            high_watermark=log.high_watermark,
            records=data[later[0] : end] if later else b"",
        )
        return fetch.FetchResponse(
            responses=(fetch.FetchableTopicResponse(topic=topic.topic, partitions=(found,)),)
        )

    def _configs(self, asked: Any) -> describe_configs.DescribeConfigsResponse:
        (resource,) = asked.resources
        code = self.forbidden.get(describe_configs.API.key, ErrorCode.none)
        result = describe_configs.DescribeConfigsResult(
            error_code=code,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(
                describe_configs.DescribeConfigsResourceResult(name=name, value=value)
                for name, value in self.configs.items()
            ),
        )
        return describe_configs.DescribeConfigsResponse(results=(result,))

    def _producers(self, asked: Any) -> describe_producers.DescribeProducersResponse:
        (topic,) = asked.topics
        code = self.forbidden.get(describe_producers.API.key, ErrorCode.none)
        states = tuple(
            describe_producers.ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.last_sequence,
            )
            for each in self.logs[topic.name].producers.describe()
        )
        part = describe_producers.PartitionResponse(
            partition_index=0, error_code=code, active_producers=() if code else states
        )
        return describe_producers.DescribeProducersResponse(
            topics=(describe_producers.TopicResponse(name=topic.name, partitions=(part,)),)
        )


_ANSWERS: dict[int, Callable[[RefusingBroker, Any], Any]] = {
    metadata.API.key: RefusingBroker._metadata,
    produce.API.key: RefusingBroker._produce,
    fetch.API.key: RefusingBroker._fetch,
    list_offsets.API.key: RefusingBroker._offsets,
    init_producer_id.API.key: RefusingBroker._identity,
    describe_configs.API.key: RefusingBroker._configs,
    describe_producers.API.key: RefusingBroker._producers,
}
