"""A leader that does what no real one does on demand: parts with history, forgets sessions, breaks
off in the middle of an answer, damages what it sends, is silent. It speaks Fetch alone, over a real
socket, and answers from lists of batches.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from broker.storage.directory.checkpoints import Key
from tests.broker.storage.log_files import batch
from tests.client.scripted_broker import ScriptedBroker, frame, greeting
from wire.errors import ErrorCode
from wire.framing.requests import has_tagged_header, read_body, read_header
from wire.messages import api_versions, fetch
from wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from wire.record_batches.batch import read_header as batch_header
from wire.record_batches.batch import stamp

KEY: Final[Key] = ("t", 0)
Answer = Callable[[FetchRequest], FetchResponse | bytes | None]
"""Instead of what it would say: an answer, any bytes as a whole frame, or None, which hangs up."""


def batches(*counts: int, first: int = 0, epoch: int = 0, size: int = 10) -> list[bytes]:
    """Behind each other, of so many records each."""
    made = []
    for count in counts:
        new = batch(count, size=size)
        stamp(new, first, epoch)
        made.append(bytes(new))
        first += count
    return made


class LedPartition(msgspec.Struct):
    """A log, as its leader has it."""

    batches: list[bytes] = []
    epoch: int = 0
    start: int = 0
    committed: int | None = None  # up to where; without it, all is
    knows_epochs: bool = True

    @property
    def end(self) -> int:
        return batch_header(self.batches[-1]).next_offset if self.batches else self.start

    def answer(self, asked: FetchPartition) -> PartitionData:
        if asked.current_leader_epoch != self.epoch:
            fenced = asked.current_leader_epoch < self.epoch
            code = ErrorCode.fenced_leader_epoch if fenced else ErrorCode.unknown_leader_epoch
            return PartitionData(partition_index=asked.partition, error_code=code)
        said = PartitionData(
            partition_index=asked.partition,
            high_watermark=self.end if self.committed is None else self.committed,
            log_start_offset=self.start,
        )
        ended = self._epoch_end(asked.last_fetched_epoch)
        parts = ended.epoch < asked.last_fetched_epoch or ended.end_offset < asked.fetch_offset
        knows = self.knows_epochs and asked.last_fetched_epoch >= 0
        if parts and knows and asked.fetch_offset >= self.start:
            return replace(said, diverging_epoch=ended)
        if not self.start <= asked.fetch_offset <= self.end:
            return replace(said, error_code=ErrorCode.offset_out_of_range)
        return replace(said, records=self._read(asked.fetch_offset, asked.partition_max_bytes))

    def _read(self, offset: int, most: int) -> bytes:
        found = b""
        for each in self.batches:
            if batch_header(each).next_offset > offset:
                if found and len(found) + len(each) > most:
                    break
                found += each
        return found

    def _epoch_end(self, epoch: int) -> EpochEndOffset:
        headers = [batch_header(each) for each in self.batches]
        starts = {each.leader_epoch: each.base_offset for each in reversed(headers)}
        epochs = sorted(starts)
        for one, following in pairwise([*epochs, None]):
            if one is not None and one <= epoch and (following is None or following > epoch):
                end = self.end if following is None else starts[following]
                return EpochEndOffset(epoch=one, end_offset=end)
        return EpochEndOffset(epoch=epoch, end_offset=self.start)


class ScriptedLeader:
    """`gives_sessions` may be changed at any time, and so may what it leads."""

    def __init__(self) -> None:
        self.partitions: dict[Key, LedPartition] = {KEY: LedPartition()}
        self.gives_sessions = True
        self.requests: list[FetchRequest] = []
        self.instead: deque[Answer] = deque()  # for the next requests
        self._sessions: dict[int, dict[Key, FetchPartition]] = {}
        self._said: dict[Key, tuple[int, int]] = {}
        self._news = threading.Event()

    @property
    def led(self) -> LedPartition:
        return self.partitions[KEY]

    def lead(self, made: Sequence[bytes], epoch: int = 0) -> None:
        """Append these; who waits is answered."""
        self.led.batches += made
        self.led.epoch = epoch
        self._news.set()

    def answer(self, request: memoryview) -> bytes | None:
        header = read_header(request)
        version = header.api_version
        if header.api_key == api_versions.API.key:
            return greeting(request, {fetch.API.key: (4, 12), api_versions.API.key: (0, 3)})
        flexible = fetch.API.is_flexible(version)
        asked = fetch.API.decode_request(version, read_body(request, flexible=flexible))
        self.requests.append(asked)
        said = self.instead.popleft()(asked) if self.instead else self.usual(asked)
        if not isinstance(said, FetchResponse):
            return said
        body = bytes(fetch.API.encode_response(version, said))
        tagged = has_tagged_header(fetch.API, version)
        return frame(header.correlation_id, body, tagged=tagged)

    def usual(self, asked: FetchRequest) -> FetchResponse:
        """What a leader says."""
        named = {
            (topic.topic, each.partition): each
            for topic in asked.topics
            for each in topic.partitions
        }
        is_full = asked.session_epoch == 0
        if is_full:
            self._sessions.pop(asked.session_id, None)
            self._said.clear()
            number = len(self.requests) if self.gives_sessions else 0
            session = self._sessions[number] = named
        else:
            number = asked.session_id
            if number not in self._sessions:
                code = ErrorCode.fetch_session_id_not_found
                return FetchResponse(error_code=code, responses=())
            session = self._sessions[number]
            for topic in asked.forgotten_topics_data:
                for index in topic.partitions:
                    del session[topic.topic, index]
                    self._said.pop((topic.topic, index), None)
            session.update(named)
        self._news.clear()
        answers = self._answers(session, is_full=is_full)
        if not any(each.records or each.error_code for each in answers.values()):
            self._news.wait(asked.max_wait / 1000)
            answers.update(self._answers(session, is_full=False))
        topics = (
            FetchableTopicResponse(topic=topic, partitions=(data,))
            for (topic, _), data in answers.items()
        )
        return FetchResponse(session_id=number, responses=tuple(topics))

    def forget_sessions(self) -> None:
        self._sessions.clear()

    def _answers(
        self, session: dict[Key, FetchPartition], *, is_full: bool
    ) -> dict[Key, PartitionData]:
        """Of partitions of which there is something to say."""
        answers = {}
        for key, asked in session.items():
            data = self.partitions[key].answer(asked)
            said = data.high_watermark, data.log_start_offset
            has_news = data.records or data.error_code or data.diverging_epoch.end_offset >= 0
            if is_full or has_news or self._said.get(key) != said:
                answers[key] = data
                self._said[key] = said
        return answers


@contextmanager
def scripted_leader() -> Iterator[tuple[ScriptedLeader, ScriptedBroker]]:
    """A leader, and the broker that it is."""
    leader = ScriptedLeader()
    with ScriptedBroker([leader.answer] * 100_000) as broker:
        yield leader, broker
