"""A counter's file: what it says after any crash, and that damage is not guessed at."""

from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from client.errors import ErrorCode, Refused
from ground.signatures.keys import SigningKey
from harness.penstock.made_batches import NOON, WINDOW, foreign_batch, header_of
from ledger.counting.batches import Json
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CounterFileDamaged, CountingJournal, CountPosition, PartitionKey
from ledger.counting.sealed_entries import SealedEntry
from tests.ledger.chains import Walked
from tests.ledger.counting.encoding import COUNTERS_KEY, EncodesAtOnce
from wire.record_batches.records import Record

KEY = PartitionKey("clicks", "id", 0)
OTHER = PartitionKey("clicks", "other", 0)


def test_it_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "counter"
    journal = CountingJournal(path, "broker", COUNTERS_KEY)
    assert journal.is_new
    entries: list[Json] = [{"a": 1}, {"b": [NOON, "x"]}]
    journal.write(entries, {KEY: CountPosition(5, 0, 70), OTHER: CountPosition(9)})
    again = CountingJournal(path, "broker", COUNTERS_KEY)
    assert not again.is_new
    assert (again.source, again.next_seq, again.pending) == (journal.source, 2, entries)
    assert again.places == {KEY: CountPosition(5, 0, 70), OTHER: CountPosition(9)}
    again.acknowledged()
    again.write([], {KEY: CountPosition(6)}, [OTHER])
    last = CountingJournal(path, "broker", COUNTERS_KEY)
    assert (last.next_seq, last.pending, last.places) == (2, [], {KEY: CountPosition(6)})
    assert [each.name for each in tmp_path.iterdir()] == ["counter"]


def test_each_has_a_name_of_its_own(tmp_path: Path) -> None:
    one, two = (CountingJournal(tmp_path / name, "broker", COUNTERS_KEY) for name in ("a", "b"))
    assert one.source != two.source
    assert one.source.startswith("broker-")


@given(data=st.data())
def test_damage_is_never_guessed_at(whole: tuple[Path, bytes], data: st.DataObject) -> None:
    path, intact = whole
    content = bytearray(intact)
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    path.write_bytes(content)
    with pytest.raises(CounterFileDamaged, match="counter"):
        CountingJournal(path, "broker", COUNTERS_KEY)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A file, and what is in it."""
    path = tmp_path_factory.mktemp("journal") / "counter"
    CountingJournal(path, "broker", COUNTERS_KEY).write([{"a": 1}], {KEY: CountPosition(5)})
    return path, path.read_bytes()


class Ledger(EncodesAtOnce):
    """Takes entries, or fails before or after it has taken them; none with more passages than
    `most`."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, int], Json] = {}
        self.walked = Walked()
        self.fails = ""
        self.most = 1_000
        self._encoded = 0

    def encode(self, entry: Json) -> bytes:
        """Never the same bytes, as if another release encoded it, or another registry had its
        schema."""
        self._encoded += 1
        return super().encode(entry) + b"%d" % self._encoded

    def send(self, sealed: SealedEntry) -> None:
        entry = sealed.entry
        fails, self.fails = self.fails, ""
        self.is_connected = not fails
        if fails == "before":
            raise OSError("not sent")
        if len(entry["passages"]) > self.most:
            raise Refused("_audit-0", ErrorCode.message_too_large)
        header = entry["header"]
        known = self.entries.setdefault((header["source"], header["seq"]), entry)
        assert known == entry, "the same number, and not the same"
        self.walked.add(Record(0, 0, None, sealed.value, (("proof", sealed.proof),)), entry)
        if fails == "after":
            raise OSError("no answer")


def counter_of(path: Path, ledger: Ledger) -> Counter:
    journal = CountingJournal(path, "broker", COUNTERS_KEY)
    return Counter(journal, Speaker(journal.source, "h", "a", "dc1", WINDOW), ledger)


def read(counter: Counter, log: list[bytes]) -> None:
    """Whatever the counter has not counted yet."""
    first = (counter.place(KEY) or CountPosition(0)).next_offset
    counter.partition(KEY, first, leader_epoch=0, seen=None)
    for batch in log:
        if header_of(batch).base_offset >= first:
            counter.batch(header_of(batch), lambda batch=batch: batch, gaps_are_empty=False)


@settings(max_examples=12)  # each step is on disk before the next
@given(steps=st.lists(st.sampled_from(["commit", "before", "after", "crash", "full"]), max_size=6))
def test_every_offset_is_told_once_whatever_fails(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    path, ledger = tmp_path_factory.mktemp("journal") / "counter", Ledger()
    counter = counter_of(path, ledger)
    log: list[bytes] = []
    end = 0
    for step in [*steps, "commit"]:
        for _ in range(2):  # events in many windows make an entry full
            events = 4_100 if step == "full" else 3
            log.append(foreign_batch([NOON + at * WINDOW for at in range(events)], base=end))
            end += events
        with suppress(OSError):
            counter.settle()
            read(counter, log)
            if step == "crash":
                counter = counter_of(path, ledger)
                continue
            ledger.fails = step
            counter.commit()
        if step == "after":
            counter = counter_of(path, ledger)
    counter.settle()
    told = sorted(
        (offsets["first"], offsets["first"] + offsets["count"])
        for entry in ledger.entries.values()
        for passage in entry["passages"]
        for offsets in passage["offsets"]
    )
    covered = [offset for first, behind in told for offset in range(first, behind)]
    assert covered == list(range(end))
    assert sorted(seq for _, seq in ledger.entries) == list(range(len(ledger.entries)))
    assert ledger.walked.proofs.keys() == ledger.walked.values.keys()
    assert ledger.walked.breaks == []
    assert ledger.walked.keys == [COUNTERS_KEY.public.raw]


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_entry_that_is_too_large_is_told_in_parts(tmp_path: Path, *, is_killed: bool) -> None:
    path, ledger = tmp_path / "counter", Ledger()
    counter = counter_of(path, ledger)
    ledger.most, ledger.fails = 2, "before" if is_killed else ""
    counter.settle()
    batch = foreign_batch([NOON])
    for partition in range(7):
        key = PartitionKey("clicks", "id", partition)
        counter.partition(key, 0, leader_epoch=0, seen=None)
        counter.batch(header_of(batch), lambda: batch, gaps_are_empty=False)
    with suppress(OSError):
        counter.commit()
    counter_of(path, ledger).settle()
    told = [each["partition"] for entry in ledger.entries.values() for each in entry["passages"]]
    assert sorted(told) == list(range(7))
    assert sorted(seq for _, seq in ledger.entries) == list(range(len(ledger.entries)))
    assert CountingJournal(path, "broker", COUNTERS_KEY).next_seq == len(ledger.entries)
    assert ledger.walked.proofs.keys() == ledger.walked.values.keys()
    ledger.most = 0
    with pytest.raises(Refused):
        counter_of(path, ledger).settle()


def test_another_key_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "counter"
    CountingJournal(path, "broker", COUNTERS_KEY).write([], {KEY: CountPosition(5)})
    CountingJournal(path, "broker", COUNTERS_KEY)
    assert "signing key" not in caplog.text
    other = SigningKey.new()
    CountingJournal(path, "broker", other).write([], {})
    assert "signing key is another" in caplog.text
    assert other.public.fingerprint in caplog.text
    caplog.clear()
    CountingJournal(path, "broker", other)
    assert caplog.text == ""


def test_a_file_of_a_release_without_proofs_is_continued(tmp_path: Path) -> None:
    """Its pending entries are sealed before they are sent."""
    path, ledger = tmp_path / "counter", Ledger()
    header = {"source": "broker-x", "seq": 3}
    former = ["broker-x", 4, [], [{"header": header, "passages": []}]]
    body = msgspec.msgpack.encode(former)
    path.write_bytes(b"penstock counter 1\n" + crc32c(body).to_bytes(4, "big") + body)
    counter_of(path, ledger).settle()
    assert list(ledger.walked.proofs) == [3]
    counter_of(path, ledger).settle()
    assert ledger.walked.repeated == 1
