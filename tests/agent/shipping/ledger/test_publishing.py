"""The ledger as it is published: repeated byte for byte, nothing missing, nobody waiting for it."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.accounting.parcels import Eventless, Outgoing, Parcel
from agent.accounting.runs import Excepted, Fate, Progress, Run
from agent.configuration.config import BatchCompression, Batches
from agent.errors import JournalFull
from agent.recognition.identity import fingerprint
from agent.shipping.ledger.publishing import NAMED_SECONDS, Heartbeats, Ledger
from client.producing.delivery import TopicPartition
from harness.processes.waiting import wait_until
from ledger.health import Problem, ProblemKind
from ledger.names import LEDGER_TOPIC, topic_id_text
from tests.agent.journal.samples import files, journal_on
from tests.agent.shipping.agent_side import (
    WINDOW_MILLIS,
    AgentSide,
    KnownSchemas,
    agent_side,
    config_for,
)
from tests.agent.shipping.refusing_broker import TAKEN, Outcome, RefusingBroker
from tests.ledger.chains import key_in, walk
from wire.errors import ErrorCode
from wire.record_batches.records import records

TOPIC = "t"


def ship(side: AgentSide, count: int) -> None:
    mine = [each for each in side.sources.values() if each.topic == TOPIC]
    source = mine[0] if mine else side.new_source(TOPIC)
    for _ in range(count):
        side.ship(source, [str(source.seq)])
    side.settle()


def seqs(broker: RefusingBroker) -> list[int]:
    return [entry["header"]["seq"] for entry in broker.events(LEDGER_TOPIC)]


def offsets(broker: RefusingBroker) -> list[tuple[int, int]]:
    said = [each for passage in broker.passages() for each in passage["offsets"]]
    return sorted((each["first"], each["count"]) for each in said)


def runs(broker: RefusingBroker) -> list[dict[str, Any]]:
    return [run for passage in broker.passages() for run in passage["runs"]]


def covered(broker: RefusingBroker) -> int:
    return sum(count for _, count in offsets(broker))


def refusing(code: ErrorCode, left: list[int]) -> Callable[[str, memoryview], Outcome]:
    def rule(topic: str, batch: memoryview) -> Outcome:
        if topic == LEDGER_TOPIC and left[0]:
            left[0] -= 1
            return Outcome(False, code)
        return TAKEN

    return rule


def test_numbers_go_on_over_restarts(tmp_path: Path) -> None:
    with RefusingBroker() as broker:
        for _ in range(3):
            with agent_side(broker.bootstrap, tmp_path, ledger_interval=1_000.0) as side:
                ship(side, 5)
        said = seqs(broker)
        # Each at the end of a life; and the first one says something as soon as it can.
        assert said == list(range(len(said)))
        assert len(said) in {3, 4}
        assert {entry["header"]["source"] for entry in broker.events(LEDGER_TOPIC)} == {
            side.journal.agent_id
        }
        assert covered(broker) == 15
        paths = [run["path"] for run in runs(broker)]
        assert set(paths) <= {"", next(iter(side.sources.values())).known().path}
        assert len([path for path in paths if path]) == 3  # once for each life


@pytest.mark.parametrize("lost", [1_500, 1 << 30])
def test_numbers_go_on_where_a_journal_has_lost_its_end(tmp_path: Path, lost: int) -> None:
    """And what is said under them is said of another life: nobody takes it for the same."""
    with RefusingBroker() as broker:
        with agent_side(broker.bootstrap, tmp_path, ledger_interval=1_000.0) as side:
            ship(side, 5)
            agent_id = side.journal.agent_id
        given = len(seqs(broker))
        newest = files(tmp_path)[-1]
        os.truncate(newest, max(0, newest.stat().st_size - lost))
        with agent_side(broker.bootstrap, tmp_path, ledger_interval=1_000.0) as side:
            assert side.journal.agent_id == agent_id
            assert side.state.damage is not None
            ship(side, 5)
        assert given > 0
        assert len(seqs(broker)) > given
        assert len(set(seqs(broker))) == len(seqs(broker))


def test_entries_that_could_not_be_flushed_are_journalled_again(tmp_path: Path) -> None:
    """They are in the journal already, under their numbers: others would leave a hole."""
    clock = [100.0]
    with journal_on(tmp_path, "/dev/null", sync=True) as journal:
        config = config_for("127.0.0.1:1", tmp_path, ledger_interval=10.0)
        publisher = Ledger(config, journal, lambda topic: True, lambda: clock[0])
        schema, target = KnownSchemas().ledger, TopicPartition(LEDGER_TOPIC, 0)
        assert schema is not None

        def entries() -> Sequence[Outgoing]:
            clock[0] += 20.0
            return publisher.entries(target, schema, 7, most_batch_bytes=1 << 20)

        publisher.heartbeat({TOPIC: WINDOW_MILLIS}, 0)
        with pytest.raises(JournalFull, match="Invalid argument"):
            entries()
        publisher.heartbeat({TOPIC: 2 * WINDOW_MILLIS}, 0)
        assert publisher.has_more()
        first = entries()
        assert [each.outgoing for each in journal.open_batches] == list(first)
        for outgoing in first:
            journal.acknowledged(outgoing.number, -1)
        second = entries()
        found = [record for each in (*first, *second) for record in records(each.batch.data)]
        (walked,) = walk(found).values()
        assert (walked.numbers, walked.breaks) == ([0, 1], [])
        heartbeats = [each["until"] for entry in walked.entries for each in entry["heartbeats"]]
        assert heartbeats == [WINDOW_MILLIS, 2 * WINDOW_MILLIS]


def test_nobody_waits_for_the_ledger(tmp_path: Path) -> None:
    left = [1 << 30]
    with RefusingBroker(refusing(ErrorCode.topic_authorization_failed, left)) as broker:
        with agent_side(broker.bootstrap, tmp_path) as side:
            ship(side, 5)
            wait_until(lambda: LEDGER_TOPIC in side.shipper.stalled())
            assert side.shipper.room()
            assert side.shipper.oldest_open() is None
            ship(side, 5)
        assert broker.events(LEDGER_TOPIC) == []
        left[0] = 0
        with agent_side(broker.bootstrap, tmp_path) as side:
            ship(side, 5)
        assert seqs(broker) == list(range(len(seqs(broker))))
        assert covered(broker) == 15
        assert side.state.statements


def test_an_entry_that_is_too_large_is_said_in_smaller_ones(tmp_path: Path) -> None:
    """And none of their numbers is missing."""

    def rule(topic: str, batch: memoryview) -> Outcome:
        large = topic == LEDGER_TOPIC and len(batch) > 2_000
        return Outcome(False, ErrorCode.message_too_large) if large else TAKEN

    with RefusingBroker(rule) as broker:
        options = {
            "ledger_interval": 1_000.0,
            "batches": Batches(compression=BatchCompression.NONE),
        }
        with agent_side(broker.bootstrap, tmp_path, **options) as side:
            for _ in range(60):
                ship(side, 1)
                ship_one_of_another_file(side)
        assert covered(broker) == 120
        assert seqs(broker) == list(range(len(seqs(broker))))


def test_entries_behind_one_that_was_too_large_are_proven_again(tmp_path: Path) -> None:
    """It was emptied, so their chain is another; a heartbeat behind it was signed before that."""
    refused = [0]

    def rule(topic: str, batch: memoryview) -> Outcome:
        if topic == LEDGER_TOPIC and len(batch) > 2_000:
            refused[0] += 1
            return Outcome(False, ErrorCode.message_too_large)
        return TAKEN

    options = {
        "ledger_interval": 0.2,
        "batches": Batches(compression=BatchCompression.NONE),
    }
    with RefusingBroker(rule) as broker, agent_side(broker.bootstrap, tmp_path, **options) as side:
        side.shipper.heartbeat({TOPIC: 0}, 0)
        wait_until(lambda: seqs(broker))
        for window in range(1, 4):
            for _ in range(30):
                source = side.new_source(TOPIC)
                side.ship(source, ["x"])
            side.shipper.heartbeat({TOPIC: window * WINDOW_MILLIS}, 0)
            side.settle()
            wait_until(lambda window=window: window * WINDOW_MILLIS in times_published(broker))
    assert refused[0] > 0
    (walked,) = walk(broker.records(LEDGER_TOPIC)).values()
    assert walked.numbers == list(range(len(walked.values)))
    assert walked.breaks == []
    assert walked.keys == [key_in(tmp_path)]
    for entry in walked.entries:
        assert not entry["heartbeats"] or entry["header"]["seq"] in walked.proofs


def times_published(broker: RefusingBroker) -> list[int]:
    entries = broker.events(LEDGER_TOPIC)
    return [each["until"] for entry in entries for each in entry["heartbeats"]]


def ship_one_of_another_file(side: AgentSide) -> None:
    side.ship(side.new_source(TOPIC), ["x"])


def test_a_statement_that_no_entry_can_hold_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large = [0]

    def rule(topic: str, batch: memoryview) -> Outcome:
        if topic == LEDGER_TOPIC and len(batch) > 600:
            large[0] += 1
            return Outcome(False, ErrorCode.message_too_large)
        return TAKEN

    options = {"batches": Batches(compression=BatchCompression.NONE)}
    with RefusingBroker(rule) as broker, agent_side(broker.bootstrap, tmp_path, **options) as side:
        ship(side, 1)
        source = next(iter(side.sources.values()))
        reason = "x" * 1_000
        filtered = Excepted(Fate.FILTERED, 4, 40, reason)
        run = Run(source.id, source.seq, 0, source.position, source.position + 40, 0, (filtered,))
        progress = {source.id: Progress(source.position + 40, source.seq)}
        number = side.journal.next_number()
        side.journal.parcel(Parcel((), [Eventless(number, TOPIC, run)], progress))
        wait_until(lambda: not side.journal.sizes.statements)
        assert large[0] > 0
        assert caplog.text.count("statement too large for the ledger") == 1
        assert covered(broker) == 1
    assert seqs(broker) == list(range(len(seqs(broker))))


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    name = "/logs/caf\udce9.log"
    with RefusingBroker() as broker:
        with agent_side(broker.bootstrap, tmp_path) as side:
            source = side.new_source(TOPIC)
            side.journal.source(replace(source.known(), path=name))
            side.ship(source, ["x"])
            side.settle()
            side.journal.finished(source.id, 1)
        entries = broker.events(LEDGER_TOPIC)
        paths = [run["path"] for run in runs(broker)]
        (finished,) = (each for entry in entries for each in entry["finished"])
        assert [*filter(None, paths), finished["path"]] == ["/logs/caf\ufffd.log"] * 2


def test_what_cannot_be_written_is_left_out_and_the_rest_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RefusingBroker() as broker:
        options = {"ledger_interval": 1_000.0}
        with agent_side(broker.bootstrap, tmp_path, **options) as side:
            ship(side, 2)
            (source,) = side.sources.values()
            run = Run(source.id, 1 << 63, 0, source.position, source.position, 0)
            eventless = Eventless(side.journal.next_number(), TOPIC, run)
            side.journal.parcel(Parcel((), [eventless], {}))
            ship(side, 2)
        assert covered(broker) == 4
        assert caplog.text.count("a statement for the ledger") == 1
    assert side.shipper.failure is None


def test_runs_wait_until_it_is_known_which_topic_they_are_about(tmp_path: Path) -> None:
    with RefusingBroker() as broker:
        broker.missing.add(TOPIC)
        with agent_side(broker.bootstrap, tmp_path) as side:
            source = side.new_source(TOPIC)
            lost = Excepted(Fate.LOST, -1, 10, "gone")
            run = Run(source.id, 0, 0, 0, 10, 0, (lost,))
            eventless = Eventless(side.journal.next_number(), TOPIC, run)
            side.journal.parcel(Parcel((), [eventless], {source.id: Progress(10)}))
            ship_other(side)
            wait_until(lambda: covered(broker) == 1)
            wait_until(lambda: side.journal.sizes.statements == 1)
            broker.missing.clear()
            wait_until(lambda: not side.journal.sizes.statements)
        (passage,) = (each for each in broker.passages() if each["partition"] < 0)
        assert passage["topic_id"] == topic_id_text(broker.topic_id)


def ship_other(side: AgentSide) -> None:
    side.ship(side.new_source("other"), ["x"])
    side.settle()


def test_without_a_schema_statements_wait(tmp_path: Path) -> None:
    schemas = KnownSchemas(ledger=None)
    with (
        RefusingBroker() as broker,
        agent_side(broker.bootstrap, tmp_path, schemas=schemas) as side,
    ):
        ship(side, 5)
        assert side.journal.sizes.statements == 5
        schemas.ledger = KnownSchemas().ledger
        wait_until(lambda: covered(broker) == 5)
        wait_until(lambda: side.journal.sizes.statements == 0)


def test_lines_without_event_files_that_ended_and_heartbeats(tmp_path: Path) -> None:
    with RefusingBroker() as broker:
        with agent_side(broker.bootstrap, tmp_path) as side:
            ship(side, 2)
            (source,) = side.sources.values()
            position = source.position
            filtered = Excepted(Fate.FILTERED, 4, 40, "debug")
            run = Run(source.id, source.seq, 0, position, position + 40, 0, (filtered,))
            eventless = Eventless(side.journal.next_number(), TOPIC, run)
            progress = {source.id: Progress(position + 40, source.seq)}
            side.journal.parcel(Parcel((), [eventless], progress))
            side.journal.finished(source.id, 1)
            side.shipper.report_problems([Problem(ProblemKind.REJECTED, "/a.yaml", "line 1", 7)])
            side.shipper.heartbeat({TOPIC: 5 * WINDOW_MILLIS + 1}, 12)
        entries = broker.events(LEDGER_TOPIC)
        (finished,) = (each for entry in entries for each in entry["finished"])
        assert (finished["events"], finished["size"]) == (2, position + 40)
        (beat,) = (each for entry in entries for each in entry["heartbeats"])
        assert (beat["until"], beat["topics"]) == (5 * WINDOW_MILLIS, [TOPIC])
        assert beat["lag_bytes"] == 12
        (health,) = (each for entry in entries for each in entry["health"])
        assert [disk["label"] for disk in health["disks"]] == [str(tmp_path)]
        assert [problem["text"] for problem in health["problems"]] == ["line 1"]
        bare = [each for each in broker.passages() if each["partition"] < 0]
        assert [run["excepted"][0]["bytes"] for passage in bare for run in passage["runs"]] == [40]


def test_a_source_that_has_another_file_is_said_though_nothing_else_is(tmp_path: Path) -> None:
    """As one that went on in a copy, and had been read to its end."""
    with RefusingBroker() as broker:
        with agent_side(broker.bootstrap, tmp_path) as side:
            ship(side, 2)
            (source,) = side.sources.values()
            wait_until(lambda: not side.journal.sizes.statements)
            assert inodes(broker) == [1]
            side.journal.source(replace(source.known(), last_path="/logs/moved"))
            side.journal.source(replace(source.known(), last_path="/logs/moved", inode=2))
            wait_until(lambda: inodes(broker) == [1, 2])
            assert not side.journal.moved
        assert inodes(broker) == [1, 2]


def inodes(broker: RefusingBroker) -> list[int]:
    files = [each for entry in broker.events(LEDGER_TOPIC) for each in entry["files"]]
    return [int(each["identity"].split("-")[1]) for each in files]


def test_a_file_is_said_again_whenever_twice_as_much_is_known_of_it(tmp_path: Path) -> None:
    """It may be gone, or its agent, before it has as much as is needed to know it by."""
    with RefusingBroker() as broker:
        with agent_side(broker.bootstrap, tmp_path) as side:
            for size in (20, 30, 40, 70, 1023, 1024):
                ship(side, 1)
                (source,) = side.sources.values()
                head = fingerprint(b"x" * size)
                side.journal.source(replace(source.known(), fingerprint=head))
                ship(side, 1)
                wait_until(lambda: not side.journal.sizes.statements)
        files = [each for entry in broker.events(LEDGER_TOPIC) for each in entry["files"]]
        sizes = [each["head_size"] for each in files if each["head_size"]]
        assert sizes == [20, 40, 1023, 1024]
        assert [len(each["shorter_heads"]) // 8 for each in files[-4:]] == [1, 2, 6, 7]
        assert files[-1]["shorter_heads"].startswith(files[-2]["shorter_heads"])


@pytest.mark.not_quick("very many entries")
def test_an_idle_agent_says_one_small_entry_a_window(tmp_path: Path) -> None:
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        for window in range(3):
            for millis in range(3):
                side.shipper.heartbeat({TOPIC: window * WINDOW_MILLIS + millis}, 0)
            wait_until(lambda window=window: len(seqs(broker)) > window)
    assert len(seqs(broker)) == 3
    sizes = [header.size for header in broker.headers(LEDGER_TOPIC)]
    assert sizes[-1] < 300


def test_none_is_published_where_none_is_wanted(tmp_path: Path) -> None:
    with RefusingBroker() as broker:
        with agent_side(broker.bootstrap, tmp_path, ledger=False) as side:
            ship(side, 2)
            side.shipper.heartbeat({TOPIC: WINDOW_MILLIS}, 0)
        assert broker.events(LEDGER_TOPIC) == []


def test_a_new_agent_is_heard_at_once(tmp_path: Path) -> None:
    """It may be all that it ever says: of who was never heard, nobody misses anything. Not at its
    start either, when there is nothing to be said yet."""
    never = 3600.0
    with (
        RefusingBroker() as broker,
        agent_side(broker.bootstrap, tmp_path, ledger_interval=never) as side,
    ):
        time.sleep(1.0)
        side.shipper.heartbeat({TOPIC: 0}, 0)
        wait_until(lambda: seqs(broker) == [0])
        (heartbeat,) = broker.events(LEDGER_TOPIC)[0]["heartbeats"]
        assert heartbeat["topics"] == [TOPIC]


# Heartbeats: one a window, topics named when it must be

WINDOW = 60_000


def heartbeats() -> Heartbeats:
    return Heartbeats(WINDOW, "1.2")


def say(beats: Heartbeats, now: float) -> list[dict[str, object]]:
    found = beats.statements(now)
    beats.journalled(found, now)
    return found


def test_nothing_is_said_of_nothing() -> None:
    beats = heartbeats()
    assert not beats.has_news
    beats.tell({}, 0)
    assert not beats.has_news
    assert beats.statements(0) == []


def test_once_a_window() -> None:
    beats = heartbeats()
    beats.tell({"a": 3 * WINDOW + 5}, 17)
    assert beats.has_news
    named = {"topics": ["a"], "program_version": "1.2"}
    assert say(beats, 0) == [{"until": 3 * WINDOW, "lag_bytes": 17} | named]
    beats.tell({"a": 4 * WINDOW - 1}, 20)
    assert not beats.has_news
    beats.tell({"a": 4 * WINDOW}, 20)
    assert beats.has_news
    assert say(beats, 1) == [{"until": 4 * WINDOW, "lag_bytes": 20}]


def test_an_agent_that_gets_no_further_is_heard_once_a_window() -> None:
    """As one that may not read a file: without a heartbeat it would count as silent."""
    beats = heartbeats()
    beats.tell({"a": 3 * WINDOW}, 17)
    say(beats, 100.0)
    assert [beats.is_due(now) for now in (100.0, 159.0, 160.0)] == [False, False, True]
    assert say(beats, 160.0) == [{"until": 3 * WINDOW, "lag_bytes": 17}]
    assert not beats.is_due(161.0)


def test_topics_are_named_when_they_change_and_once_an_hour() -> None:
    beats = heartbeats()
    for at, topics in enumerate([{"a", "b"}, {"a", "b"}, {"a"}, {"a"}]):
        beats.tell(dict.fromkeys(topics, at * WINDOW), 0)
        (said,) = say(beats, float(at))
        assert said.get("topics") == (sorted(topics) if at in {0, 2} else None)
    beats.tell({"a": 9 * WINDOW}, 0)
    (said,) = say(beats, 2 + NAMED_SECONDS)
    assert said["topics"] == ["a"]


def test_topics_that_are_not_as_far_are_named() -> None:
    beats = heartbeats()
    beats.tell({"a": WINDOW, "b": WINDOW}, 0)
    say(beats, 0)
    beats.tell({"a": 3 * WINDOW, "b": 2 * WINDOW}, 0)
    said = say(beats, 1)
    assert [(each["until"], each["topics"]) for each in said] == [
        (2 * WINDOW, ["b"]),
        (3 * WINDOW, ["a"]),
    ]


def test_what_the_journal_did_not_take_is_said_again() -> None:
    beats = heartbeats()
    beats.tell({"a": WINDOW}, 0)
    first = beats.statements(0)
    assert beats.has_news
    assert beats.statements(1) == first
