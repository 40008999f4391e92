"""The client's side of Fetch: whole requests, and sessions as Kafka's clients keep them."""

from collections.abc import Iterable, Mapping

from tests.broker.api.running_broker import RawClient
from wire.errors import ErrorCode
from wire.messages import fetch
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from wire.record_batches.batch import headers

Key = tuple[str, int]


def asked(
    offsets: Mapping[Key, int], *, epoch: int = -1, last_epoch: int = -1, max_bytes: int = 1_000_000
) -> tuple[FetchTopic, ...]:
    """These partitions from these offsets on."""
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(
            FetchPartition(
                partition=index,
                fetch_offset=offset,
                current_leader_epoch=epoch,
                last_fetched_epoch=last_epoch,
                partition_max_bytes=max_bytes,
            )
        )
    return tuple(FetchTopic(topic=topic, partitions=tuple(each)) for topic, each in topics.items())


def whole(
    offsets: Mapping[Key, int],
    *,
    replica_id: int = -1,
    rack: str = "",
    epoch: int = -1,
    last_epoch: int = -1,
    wait: int = 0,
) -> FetchRequest:
    """A request without a session."""
    return FetchRequest(
        replica_id=replica_id,
        max_wait=wait,
        min_bytes=1,
        rack_id=rack,
        topics=asked(offsets, epoch=epoch, last_epoch=last_epoch),
    )


def told(answer: FetchResponse) -> dict[Key, PartitionData]:
    assert answer.error_code is ErrorCode.none
    return {
        (topic.topic, each.partition_index): each
        for topic in answer.responses
        for each in topic.partitions
    }


def fetched(client: RawClient, request: FetchRequest, version: int = 12) -> PartitionData:
    """The answer about the one partition that is asked for."""
    (data,) = told(client.ask(fetch.API, version, request)).values()
    return data


def offsets_in(data: PartitionData) -> list[int]:
    """The base offsets of the batches in an answer."""
    assert isinstance(data.records, memoryview | bytes)
    return [header.base_offset for _, header in headers(memoryview(data.records))]


class ClientSession:
    """What a client remembers of a session."""

    def __init__(
        self,
        client: RawClient,
        *,
        version: int = 12,
        replica_id: int = -1,
        rack: str = "",
        max_bytes: int = 10_000_000,
    ) -> None:
        self.client = client
        self.version = version
        self.id = self.epoch = 0
        self._replica_id = replica_id
        self._rack = rack
        self._max_bytes = max_bytes

    def request(
        self,
        offsets: Mapping[Key, int],
        forget: Iterable[Key] = (),
        *,
        wait: int = 0,
        min_bytes: int = 1,
    ) -> FetchRequest:
        forgotten = tuple(
            ForgottenTopic(topic=topic, partitions=(index,)) for topic, index in forget
        )
        return FetchRequest(
            replica_id=self._replica_id,
            max_wait=wait,
            min_bytes=min_bytes,
            max_bytes=self._max_bytes,
            rack_id=self._rack,
            session_id=self.id,
            session_epoch=self.epoch,
            topics=asked(offsets),
            forgotten_topics_data=forgotten,
        )

    def fetch(
        self, offsets: Mapping[Key, int] | None = None, forget: Iterable[Key] = (), *, wait: int = 0
    ) -> dict[Key, PartitionData]:
        """What it is told; in the first request everything must be wanted, later what is new."""
        self.begin(offsets, forget, wait=wait)
        return self.finish()

    def begin(
        self,
        offsets: Mapping[Key, int] | None = None,
        forget: Iterable[Key] = (),
        *,
        wait: int = 20_000,
        min_bytes: int = 1,
    ) -> None:
        request = self.request(offsets or {}, forget, wait=wait, min_bytes=min_bytes)
        self.client.begin(fetch.API, self.version, request)

    def finish(self) -> dict[Key, PartitionData]:
        answer = self.client.finish(fetch.API, self.version)
        data = told(answer)
        self.id = answer.session_id
        self.epoch = self.epoch + 1 if self.id else 0
        return data
