"""What is wrong with a history, by rules on values. Pure.

    lost         acknowledged with acks=all, and in the log no more
    moved        acknowledged at an offset where something else is
    reordered    an idempotent producer's records stand in another order than it sent them; or a
                 record stands before one that was acknowledged before it was sent
    doubled      a record of an idempotent producer is there twice
    gone         a reader saw it, and there is nothing at that offset now
    changed      a reader saw it, and something else is at that offset now
    disagree     two reads of one offset had different contents
    skipped      a reader was not given the next offset after the one before
    refused      a reader was told that an offset it had come to is out of range, or truncated
    invented     the log has what nobody sent, or not as it was made
    hole         the log does not have each offset once, in order
    replicas     two replicas differ below the high watermark
    served       a replica's directory and what a consumer reads differ
    few          acknowledged with acks=all while fewer brokers than min.insync.replicas could write
    leaders      two brokers led, or acknowledged, in one epoch
    epochs       a later batch, or a later state in ZooKeeper, has a smaller epoch
    stuck        brought back, the cluster or a writer did not come to rest
    trouble      a broker ended by itself, or said that it has a bug

What acks=1 acknowledged may be lost; all else holds for it, too.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tests.campaigns.cluster.events import Acknowledged, Began, Failed, Mapped, Read, Refused, Sent
from tests.campaigns.cluster.script import ENDS
from tests.campaigns.history import Done, History
from tests.campaigns.logs import Replica, name_of
from tests.campaigns.outcomes import Objection, troubles

ALL: Final = -1
_NOBODY: Final = -1


@dataclass(slots=True)
class Case:
    """All there is to judge by; indexes over it are made once."""

    history: History
    consumed: Mapping[int, Mapping[int, str]]
    """What a consumer that knows nothing reads when all has come to rest, by partition."""
    replicas: Mapping[int, Sequence[Replica]] = field(default_factory=dict)
    """What the directories have after a clean stop, by partition."""
    in_sync: int = 1
    """min.insync.replicas"""
    writers: dict[str, Began] = field(init=False)
    places: dict[str, list[int]] = field(init=False)
    """Where each content is, in its writer's partition."""

    def __post_init__(self) -> None:
        self.writers = {each.writer: each for each in self.history.of(Began)}
        self.places = defaultdict(list)
        for log in self.consumed.values():
            for offset in sorted(log):
                self.places[log[offset]].append(offset)


def judge(case: Case) -> list[Objection]:
    """Everything that is wrong, in the order of the rules."""
    return [objection for rule in RULES for objection in rule(case)]


def _promised(case: Case) -> Iterator[tuple[Began, Acknowledged]]:
    """What was acknowledged by all."""
    for each in case.history.of(Acknowledged):
        writer = case.writers[each.writer]
        if writer.acks == ALL:
            yield writer, each


def _lost(case: Case) -> Iterator[Objection]:
    for writer, each in _promised(case):
        name = name_of(each.writer, each.number)
        if not case.places.get(name):
            words = f"{name}, acknowledged at offset {each.offset} by {_by(each)}, at {each.at:.3f}"
            yield Objection("lost", f"{words}, is in the log no more", writer.partition)


def _moved(case: Case) -> Iterator[Objection]:
    for writer, each in _promised(case):
        name = name_of(each.writer, each.number)
        found = case.places.get(name, [])
        if each.offset >= 0 and found and each.offset not in found:
            there = case.consumed[writer.partition].get(each.offset, "nothing")
            words = f"{name}, acknowledged at offset {each.offset} by {_by(each)}, is at {found[0]}"
            yield Objection("moved", f"{words}; there is {there}", writer.partition)


def _reordered(case: Case) -> Iterator[Objection]:
    for writer in case.writers.values():
        if writer.idempotent:
            places = list(_numbers(case, writer))
            for (at, before), (later, after) in pairwise(places):
                if after < before:
                    words = f"{before} at offset {at} stands before {after} at {later}"
                    yield Objection("reordered", f"{writer.writer}: {words}", writer.partition)
    yield from _too_early(case)


def _too_early(case: Case) -> Iterator[Objection]:
    """Whoever sent it: what was acknowledged by all when it was sent lies below."""
    committed: dict[int, Acknowledged] = {}
    for event in case.history.events:
        if isinstance(event, Acknowledged):
            writer = case.writers[event.writer]
            known = committed.get(writer.partition)
            if writer.acks == ALL and (known is None or event.offset > known.offset):
                committed[writer.partition] = event
        elif isinstance(event, Sent):
            partition = case.writers[event.writer].partition
            name, before = name_of(event.writer, event.number), committed.get(partition)
            first = min(case.places.get(name, ()), default=None)
            if before is not None and first is not None and first <= before.offset:
                words = (
                    f"{name}, sent at {event.at:.3f}, stands at offset {first}, not behind "
                    f"{name_of(before.writer, before.number)}, acknowledged at {before.offset}"
                )
                yield Objection("reordered", f"{words}, at {before.at:.3f}", partition)


def _doubled(case: Case) -> Iterator[Objection]:
    for writer in case.writers.values():
        if not writer.idempotent:
            continue
        seen: dict[int, int] = {}
        for offset, number in _numbers(case, writer):
            if number in seen:
                words = f"{name_of(writer.writer, number)} at offsets {seen[number]} and {offset}"
                yield Objection("doubled", words, writer.partition)
            seen[number] = offset


def _numbers(case: Case, writer: Began) -> Iterator[tuple[int, int]]:
    """Offset and number of what the log has of this writer, by offset."""
    log = case.consumed.get(writer.partition, {})
    for offset in sorted(log):
        name, _, number = log[offset].rpartition(" ")
        if name == writer.writer:
            yield offset, int(number)


def _remembered(case: Case) -> Iterator[Objection]:
    """What was shown stays, and is shown to everybody alike."""
    shown: dict[tuple[int, int], Read] = {}
    for each in case.history.of(Read):
        key = (each.partition, each.offset)
        before = shown.setdefault(key, each)
        if before.content != each.content:
            words = (
                f"at offset {each.offset} {before.reader} read {before.content} at "
                f"{before.at:.3f}, and {each.reader} {each.content} at {each.at:.3f}"
            )
            yield Objection("disagree", words, each.partition)
    for (partition, offset), each in shown.items():
        now = case.consumed.get(partition, {}).get(offset)
        saw = f"{each.reader} read {each.content} at offset {offset}, at {each.at:.3f}"
        if now is None:
            yield Objection("gone", f"{saw}; there is nothing now", partition)
        elif now != each.content:
            yield Objection("changed", f"{saw}; there is {now} now", partition)


def _skipped(case: Case) -> Iterator[Objection]:
    expected: dict[tuple[str, int], int] = {}
    for each in case.history.of(Read):
        key = (each.reader, each.partition)
        wanted = expected.get(key, 0)
        if each.offset != wanted:
            words = f"{each.reader} was given offset {each.offset} where {wanted} comes next"
            yield Objection("skipped", f"{words}, at {each.at:.3f}", each.partition)
        expected[key] = each.offset + 1


def _refused(case: Case) -> Iterator[Objection]:
    for each in case.history.of(Refused):
        words = f"{each.reader} was told: {each.why}, at {each.at:.3f}"
        yield Objection("refused", words, each.partition)


def _invented(case: Case) -> Iterator[Objection]:
    sent = {name_of(each.writer, each.number) for each in case.history.of(Sent)}
    for partition, log in case.consumed.items():
        for offset, content in log.items():
            writer = case.writers.get(content.rpartition(" ")[0])
            if content not in sent or writer is None:
                yield Objection("invented", f"{content} at offset {offset}", partition)
            elif writer.partition != partition:
                words = f"{content} at offset {offset} was sent to partition {writer.partition}"
                yield Objection("invented", words, partition)


def _holes(case: Case) -> Iterator[Objection]:
    for partition, log in case.consumed.items():
        for at, offset in enumerate(sorted(log)):
            if at != offset:
                yield Objection("hole", f"no record at offset {at}", partition)
                break


def _replicas(case: Case) -> Iterator[Objection]:
    """Byte for byte, up to what a consumer may read."""
    for partition, replicas in case.replicas.items():
        log = case.consumed.get(partition, {})
        watermark = max(log) + 1 if log else 0
        for one, other in pairwise(replicas):
            below = [
                [batch for batch in each.batches if batch.first < watermark]
                for each in (one, other)
            ]
            for here, there in zip(*below, strict=False):
                if here.data != there.data:
                    words = f"broker {one.broker} has {here}, broker {other.broker} {there}"
                    yield Objection("replicas", words, partition)
                    break
            else:
                if len(below[0]) != len(below[1]):
                    ends = f"broker {one.broker} ends at {one.end}, broker {other.broker}"
                    words = f"{ends} at {other.end}, the high watermark is {watermark}"
                    yield Objection("replicas", words, partition)
        for each in replicas:
            for before, after in pairwise(each.batches):
                if after.first != before.last + 1:
                    words = f"broker {each.broker}: after {before} come {after}"
                    yield Objection("hole", words, partition)
            if each.rest:
                words = f"broker {each.broker}: {each.rest} bytes that are no batch, after a stop"
                yield Objection("replicas", words, partition)


def _served(case: Case) -> Iterator[Objection]:
    for partition, replicas in case.replicas.items():
        served = case.consumed.get(partition, {})
        for each in replicas:
            stored = each.contents()
            for offset, content in served.items():
                if stored.get(offset) != content:
                    words = f"at offset {offset} broker {each.broker} has {stored.get(offset)}"
                    yield Objection("served", f"{words}, a consumer read {content}", partition)
                    break


def _few(case: Case) -> Iterator[Objection]:
    """By whose disks cannot have it: who was not there, or stood still, from when it was sent until
    it was acknowledged."""
    sent: dict[tuple[str, int], float] = {}
    for record in case.history.of(Sent):
        sent[record.writer, record.number] = record.at
    absences = list(_absences(case.history))
    for writer, each in _promised(case):
        replicas = {replica.broker for replica in case.replicas.get(writer.partition, ())}
        began = sent[each.writer, each.number]
        absent = {
            broker for broker, since, until in absences if since <= began and each.at <= until
        }
        if replicas & absent and len(replicas - absent) < case.in_sync:
            words = f"{name_of(each.writer, each.number)}, sent at {began:.3f}, acknowledged by "
            words += f"{_by(each)} at {each.at:.3f}, while {sorted(replicas & absent)} were away"
            yield Objection("few", f"{words}; {case.in_sync} must have it", writer.partition)


def _absences(history: History) -> Iterator[tuple[int, float, float]]:
    """Broker, since when, until when, for sure: an action is noted when it is over, and what brings
    somebody back may have begun right after the one before. What may have done nothing, where it
    stood, brings back and does not take away."""
    away: dict[int, float] = {}
    frozen: set[int] = set()
    before = 0.0
    for done in history.of(Done):
        verb, *words = done.action.split()
        brokers = {int(word) for word in words[:1] if word.isdigit()}
        back: set[int] = set()
        if verb in ENDS or verb == "freeze":
            frozen = frozen | brokers if verb == "freeze" else frozen - brokers
            away |= {each: away.get(each, done.at) for each in brokers}
        elif verb in {"start-everywhere", "everything"}:
            back = set(away)
        elif verb == "start" or (verb == "thaw" and brokers <= frozen):
            back = brokers & away.keys()
        yield from ((each, away.pop(each), before) for each in sorted(back))
        frozen -= back
        before = done.at


def _leaders(case: Case) -> Iterator[Objection]:
    """By who was the leader in the map, and who acknowledged what is in the log with that epoch."""
    led: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    for state in case.history.of(Mapped):
        if state.leader != _NOBODY:
            saw = f"broker {state.leader} in the map at {state.at:.3f}"
            led[state.partition, state.epoch].setdefault(state.leader, saw)
    epochs = {
        (partition, offset): batch.epoch
        for partition, replicas in case.replicas.items()
        for batch in (replicas[0].batches if replicas else ())
        for offset in range(batch.first, batch.last + 1)
    }
    for each in case.history.of(Acknowledged):
        partition = case.writers[each.writer].partition
        name = name_of(each.writer, each.number)
        there = case.consumed.get(partition, {}).get(each.offset)
        epoch = epochs.get((partition, each.offset))
        if each.broker and epoch is not None and there == name:
            saw = f"broker {each.broker} acknowledged {name} at {each.at:.3f}"
            led[partition, epoch].setdefault(each.broker, saw)
    for (partition, epoch), leaders in sorted(led.items()):
        if len(leaders) > 1:
            words = f"epoch {epoch}: {'; '.join(leaders.values())}"
            yield Objection("leaders", words, partition)


def _epochs(case: Case) -> Iterator[Objection]:
    for partition, replicas in case.replicas.items():
        for each in replicas:
            for before, after in pairwise(each.batches):
                if after.epoch < before.epoch:
                    words = f"broker {each.broker}: {after} after {before}"
                    yield Objection("epochs", words, partition)
    last: dict[int, Mapped] = {}
    for state in case.history.of(Mapped):
        previous = last.get(state.partition)
        if previous and state.version > previous.version and state.epoch < previous.epoch:
            words = f"the map has epoch {state.epoch} after {previous.epoch}, at {state.at:.3f}"
            yield Objection("epochs", words, state.partition)
        last[state.partition] = state


def _stuck(case: Case) -> Iterator[Objection]:
    for each in case.history.of(Failed):
        partition = case.writers[each.writer].partition
        words = f"{name_of(each.writer, each.number)}: {each.why}, at {each.at:.3f}"
        yield Objection("stuck", words, partition)


def _by(each: Acknowledged) -> str:
    return f"broker {each.broker}" if each.broker else "some broker"


RULES: Final[tuple[Callable[[Case], Iterator[Objection]], ...]] = (
    _lost,
    _moved,
    _reordered,
    _doubled,
    _remembered,
    _skipped,
    _refused,
    _invented,
    _holes,
    _replicas,
    _served,
    _few,
    _leaders,
    _epochs,
    _stuck,
    lambda case: troubles(case.history),
)
