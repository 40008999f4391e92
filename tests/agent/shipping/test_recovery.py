"""What the journal of a killed agent has open is found in the log, or sent again as it was."""

import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.accounting.parcels import Outgoing, Parcel
from agent.accounting.runs import Progress, SourceId
from agent.journal import generations
from agent.journal.binding import Binding
from agent.journal.frames import HEADER_SIZE, JournalFrameReader
from agent.journal.journal import Journal
from agent.journal.recovery import recover
from agent.shipping.batch_lookup import evidence_of
from agent.shipping.evidence import judged
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.delivery import Batch, Stamped, TopicPartition
from client.producing.identity import Identity
from client.producing.stamping import stamped
from harness.processes.waiting import wait_until
from ledger.names import topic_id_text
from tests.agent.journal.samples import flip
from tests.agent.shipping.agent_side import Source, agent_side, events_of, now_millis, outgoing_of
from tests.agent.shipping.refusing_broker import TAKEN, Outcome, RefusingBroker
from wire.errors import ErrorCode
from wire.messages import describe_producers, fetch, list_offsets

TOPIC = "t"
TARGET = TopicPartition(TOPIC, 0)
ME = Identity(77, 3)


class Before:
    """An agent that was killed: what it left on disk, and what of it a broker has."""

    def __init__(self, broker: RefusingBroker, directory: Path) -> None:
        self.broker = broker
        self.directory = directory
        self.journal, _ = Journal.open(
            directory, sync=False, limit_bytes=1 << 26, host_binding=Binding.of(directory)
        )
        self.source = Source(self.journal.next_source(), TOPIC)
        self.journal.source(self.source.known())
        self.journal.partition(TOPIC, self.topic_id, 0, 1)

    @property
    def topic_id(self) -> str:
        return topic_id_text(self.broker.topic_id)

    def journalled(self, count: int = 1) -> list[Outgoing]:
        """Batches of two lines each."""
        found = []
        for _ in range(count):
            lines = [str(self.source.seq), str(self.source.seq + 1)]
            part = events_of(self.source, lines, [now_millis()] * 2)
            outgoing = outgoing_of(self.journal.next_number(), TARGET, [part])
            progress = {self.source.id: Progress(self.source.position, self.source.seq)}
            self.journal.parcel(Parcel([outgoing], (), progress))
            found.append(outgoing)
        return found

    def numbered(
        self, batches: Sequence[Outgoing], first: int, identity: Identity = ME
    ) -> list[Stamped]:
        found = []
        for at, each in enumerate(batches):
            stamp = stamped(each.batch, identity, first + 2 * at)
            crc = int.from_bytes(stamp.head[17:21], "big")
            self.journal.numbered([(each.number, identity, stamp.base_sequence, crc)])
            found.append(stamp)
        return found

    def written(self, batches: Sequence[Stamped], topic: str = TOPIC) -> list[int]:
        """Their offsets."""
        found = [self.broker.logs[topic].append(bytearray(each.data)) for each in batches]
        assert all(code is ErrorCode.none for code, _ in found)
        return [offset for _, offset in found]

    def acknowledged_before(self) -> None:
        """Two lines under sequences 0 and 1, long ago."""
        (old,) = self.journalled()
        (offset,) = self.written(self.numbered([old], 0))
        self.journal.acknowledged(old.number, offset)

    def others(self) -> None:
        """Somebody else writes to the partition."""
        part = events_of(Source(SourceId("other"), TOPIC), ["other"], [now_millis()])
        self.written([stamped(outgoing_of(0, TARGET, [part]).batch, Identity(5, 0), 0)])

    def forgotten(self) -> None:
        """Whose batches these are."""
        self.broker.logs[TOPIC].producers.clear()

    def recovered(self, more: int = 4, **options: Any) -> str:
        """Begins again, ships some more; returns the agent's id."""
        self.journal.close()
        with agent_side(self.broker.bootstrap, self.directory, **options) as side:
            source = side.sources[self.source.id]
            for _ in range(0, more, 2):
                side.ship(source, [str(source.seq), str(source.seq + 1)])
            side.settle()
            return side.journal.agent_id

    def lines(self) -> list[str]:
        return [each for each in self.broker.messages(TOPIC) if each != "other"]


@pytest.fixture
def broker() -> Any:
    with RefusingBroker() as running:
        yield running


@pytest.fixture
def before(broker: RefusingBroker, tmp_path: Path) -> Before:
    return Before(broker, tmp_path)


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def crcs(broker: RefusingBroker) -> list[int]:
    return [header.crc for header in broker.headers(TOPIC)]


@pytest.mark.parametrize("there", range(4))
@pytest.mark.parametrize("forgotten", [False, True])
def test_each_is_there_once(before: Before, there: int, forgotten: bool) -> None:
    before.acknowledged_before()
    sent = before.numbered(before.journalled(3), 2)
    waiting = before.journalled(2)
    before.written(sent[:there])
    before.others()
    if forgotten:
        before.forgotten()
    before.recovered()
    assert before.lines() == numbers(2 + 6 + 4 + 4)
    assert {int.from_bytes(each.head[17:21], "big") for each in sent} < set(crcs(before.broker))
    assert sum(before.broker.offsets_said(TOPIC)) == 2 + 6 + 4 + 4
    assert len(waiting) == 2


def test_a_copy_that_was_still_on_its_way_is_recognised(before: Before) -> None:
    before.acknowledged_before()
    sent = before.numbered(before.journalled(2), 2)
    first = before.broker.rule
    arrived: list[list[int]] = []

    def rule(topic: str, batch: memoryview) -> Outcome:
        """The old request overtakes the first new one."""
        if topic == TOPIC and not arrived:
            arrived.append(before.written(sent))
        return first(topic, batch)

    before.broker.rule = rule
    before.recovered()
    assert arrived == [[2, 4]]
    assert before.lines() == numbers(2 + 4 + 4)


def test_nothing_was_ever_acknowledged(before: Before) -> None:
    before.others()
    before.numbered(before.journalled(1), 0)
    before.recovered()
    assert before.lines() == numbers(2 + 4)


def test_new_batches_have_a_producer_id_of_their_own(before: Before) -> None:
    before.acknowledged_before()
    before.numbered(before.journalled(2), 2)
    before.recovered()
    producers = [header.producer_id for header in before.broker.headers(TOPIC)]
    assert producers == [77, 77, 77, 1_001, 1_001]


def test_killed_while_batches_behind_a_refused_one_got_new_numbers(before: Before) -> None:
    """The first has its new ones, the second still those behind the gap."""
    before.acknowledged_before()
    one, other = before.journalled(2)
    before.numbered([one], 0, Identity(77, 4))
    before.numbered([other], 6)
    before.recovered()
    assert before.lines() == numbers(2 + 4 + 4)
    kept = [(header.producer_id, header.producer_epoch) for header in before.broker.headers(TOPIC)]
    assert kept[:3] == [(77, 3), (77, 4), (1_001, 0)]


def test_what_has_no_numbers_yet_goes_before_what_is_behind_it(before: Before) -> None:
    """As after a refusal: halves have none, and a leader that knows nothing takes the rest."""
    _, behind = before.journalled(2)
    before.numbered([behind], 6)
    before.recovered()
    assert before.lines() == numbers(4 + 4)


def test_an_older_epoch_is_all_that_the_leader_knows(before: Before) -> None:
    before.acknowledged_before()
    before.numbered(before.journalled(2), 2, Identity(77, 5))
    before.recovered()
    assert before.lines() == numbers(2 + 4 + 4)
    assert {header.producer_id for header in before.broker.headers(TOPIC)[1:]} == {1_001}


@pytest.mark.not_quick("looks through a log often")
def test_what_replicas_do_not_have_yet_is_waited_for(before: Before) -> None:
    before.acknowledged_before()
    sent = before.numbered(before.journalled(2), 2)
    before.written(sent)
    log = before.broker.logs[TOPIC]
    log.shown = 4  # the first is seen
    before.journal.close()
    with agent_side(before.broker.bootstrap, before.directory) as side:
        wait_until(lambda: "replicas" in side.shipper.stalled().get(TOPIC, ""))
        side.ship(side.sources[before.source.id], ["6", "7"])
        assert before.lines() == numbers(6)
        log.shown = None
        side.settle()
    assert before.lines() == numbers(8)


def test_what_lies_below_what_was_acknowledged_is_found_everywhere(before: Before) -> None:
    """As in a log that has lost its end, and has got it again from others."""
    before.acknowledged_before()
    sent = before.numbered(before.journalled(2), 2)
    before.written(sent)
    before.others()
    with Brokers(Bootstrap.of(before.broker.bootstrap)) as brokers:
        ask = partial(evidence_of, brokers, TARGET, sent, 7, lambda: True)
        behind, everywhere = ask(), ask(everywhere=True)
    assert judged(sent, behind).hidden == sent
    there = judged(sent, everywhere).in_log
    assert {each: place.base_offset for each, place in there.items() if place} == {
        sent[0]: 2,
        sent[1]: 4,
    }
    assert not everywhere.is_cut_off


@pytest.mark.parametrize("entry", range(15))
def test_a_damaged_entry_of_the_journal_stops_nothing(before: Before, entry: int) -> None:
    """Whichever it is: all that is open is found, or sent again."""
    before.acknowledged_before()
    batches = before.journalled(4)
    sent = before.numbered(batches, 2)
    for batch, offset in list(zip(batches, before.written(sent), strict=True))[:3]:
        before.journal.acknowledged(batch.number, offset)
    before.journal.close()
    found = recover(tuple(generations.found(before.directory).items()))
    fd = os.open(found.path, os.O_RDONLY)
    frames = JournalFrameReader(fd, found.owner.salt).whole_after(found.stood_at)
    flip(found.path, [each.position for each in frames][entry] + HEADER_SIZE)
    os.close(fd)
    with agent_side(before.broker.bootstrap, before.directory) as side:
        assert "is damaged at byte" in (side.state.damage or "")
        side.settle()
    assert list(dict.fromkeys(before.lines())) == numbers(10)


def test_a_log_that_begins_later(before: Before, caplog: pytest.LogCaptureFixture) -> None:
    """Of the first the leader knows that it had it; of the second that it has not."""
    before.acknowledged_before()
    sent = before.numbered(before.journalled(2), 2)
    before.written(sent[:1])
    before.others()
    before.broker.logs[TOPIC].delete_before_end()
    before.recovered()
    assert before.lines() == ["4", "5", "6", "7", "8", "9"]
    assert "at an unknown offset" in caplog.text
    passages = [each for each in before.broker.passages() if each["partition"] == -1]
    bare = [run for passage in passages for run in passage["runs"]]
    assert [(run["seq"], run["events"]) for run in bare] == [(2, 2)]


def test_what_cannot_be_known_is_sent_again(
    before: Before, caplog: pytest.LogCaptureFixture
) -> None:
    before.acknowledged_before()
    sent = before.numbered(before.journalled(2), 2)
    before.written(sent[:1])
    before.others()
    before.broker.logs[TOPIC].delete_before_end()
    before.forgotten()
    before.recovered()
    assert before.lines() == ["2", "3", "4", "5", "6", "7", "8", "9"]
    (said,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "cannot tell whether" in said.getMessage()


@pytest.mark.parametrize(
    ("forgotten", "twice"), [(False, []), (True, ["2", "3", "4", "5"])], ids=["known", "forgotten"]
)
def test_who_may_not_look_is_exact_while_the_leader_remembers(
    before: Before, forgotten: bool, twice: list[str]
) -> None:
    before.acknowledged_before()
    sent = before.numbered(before.journalled(3), 2)
    before.written(sent[:2])
    if forgotten:
        before.forgotten()
    for key in (describe_producers.API.key, fetch.API.key, list_offsets.API.key):
        before.broker.forbidden[key] = ErrorCode.topic_authorization_failed
    before.journal.partition(TOPIC, before.topic_id, 0, 1)
    before.journal.partition("_audit", before.topic_id, 0, 1)
    before.recovered()
    assert sorted(before.lines()) == sorted(numbers(2 + 6 + 4) + twice)


def test_the_ledger_is_sent_again_without_a_look(
    before: Before, caplog: pytest.LogCaptureFixture
) -> None:
    """An agent need not be allowed to read it."""
    sent = before.numbered(before.journalled(2), 0)
    for key in (describe_producers.API.key, fetch.API.key, list_offsets.API.key):
        before.broker.forbidden[key] = ErrorCode.topic_authorization_failed
    with Brokers(Bootstrap.of(before.broker.bootstrap)) as brokers:
        evidence = evidence_of(brokers, TopicPartition("_audit", 0), sent, 7, lambda: True)
    verdicts = judged(sent, evidence)
    assert (verdicts.repeated, verdicts.doubtful) == (sent, [])
    assert "cannot tell whether" not in caplog.text


def test_what_was_acknowledged_out_of_order_hides_nothing(before: Before) -> None:
    """The answer for the first is an error though it was written; those behind are answered."""
    before.acknowledged_before()
    before.journalled(4)
    seen: list[str] = []

    def rule(topic: str, batch: memoryview) -> Outcome:
        if topic == TOPIC and len(seen) < 6:
            seen.append(topic)
            if len(seen) == 2:
                return Outcome(True, ErrorCode.unknown_server_error)
        return TAKEN

    before.broker.rule = rule
    before.recovered()
    assert before.lines() == numbers(2 + 8 + 4)


def test_a_topic_that_was_made_anew_gets_what_is_open(before: Before) -> None:
    before.acknowledged_before()
    sent = before.numbered(before.journalled(2), 2)
    before.written(sent[:1])
    log = before.broker.logs[TOPIC]
    log.data.clear()
    log.end = 0
    before.forgotten()
    before.broker.topic_id = type(before.broker.topic_id)(int=7)
    before.recovered()
    assert before.lines() == ["2", "3", "4", "5", "6", "7", "8", "9"]
    journal, state = Journal.open(
        before.directory, sync=False, limit_bytes=1 << 26, host_binding=Binding.of(before.directory)
    )
    assert state.partitions[TOPIC].topic_id == before.topic_id
    assert state.acknowledged_offsets[TARGET] == 7
    journal.close()


def test_batches_are_compared_by_identity() -> None:
    """Or the books of shipping would mix up two that are alike."""
    part = events_of(Source(SourceId("a"), TOPIC), ["x"], [0])
    batch = outgoing_of(1, TARGET, [part]).batch
    assert batch != Batch(batch.target, batch.data)
