"""The agents' ledger entries, compared with the log and with the events.

Entries are read from `_audit` as any audit would; every claim is compared with batch headers,
offsets and events. `check_ledger` returns what the runs say about each source.
"""

from base64 import urlsafe_b64encode
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tests.system.agent.incarnations import Violated
from tests.system.agent.shipped import Content, Event

Statement = Mapping[str, Any]


@dataclass(frozen=True)
class Left:
    """Lines that were not shipped; -1 if their number cannot be known."""

    fate: str
    count: int
    bytes: int
    reason: str


@dataclass
class Account:
    """The sum of one source's runs; `lines` are the file's lines that became events."""

    events: int = 0
    lines: int = 0
    end: int = 0
    first: int = 0
    path: str = ""
    excepted: list[Left] = field(default_factory=list)
    finished: Statement | None = None

    def count(self, fate: str) -> int:
        return sum(each.count for each in self.excepted if each.fate == fate)

    def bytes(self, fate: str) -> int:
        return sum(each.bytes for each in self.excepted if each.fate == fate)

    @property
    def all_lines(self) -> int:
        """All lines in the file: shipped, filtered, dead or lost."""
        return self.lines + sum(each.count for each in self.excepted)


@dataclass(frozen=True)
class Ledger:
    """The entries of some hosts' agents, each once, without a missing one; but where a journal was
    cut, `may_lack` those whose numbers had been given out by then, and the same may come again."""

    entries: Sequence[Event]

    @classmethod
    def of(cls, audit: Content, hosts: Collection[str], *, may_lack: bool = False) -> "Ledger":
        entries = [entry for entry in sorted(audit.events) if entry.host in hosts]
        if may_lack:
            first = {(each.source, each.seq, repr(each.value)): each for each in entries[::-1]}
            entries = sorted(first.values())
        expected: Counter[str] = Counter()
        for entry in entries:
            if entry.seq != expected[entry.source] and not (
                may_lack and entry.seq > expected[entry.source]
            ):
                raise Violated(
                    f"ledger of {entry.source}: entry {entry.seq} "
                    f"where {expected[entry.source]} belongs"
                )
            expected[entry.source] = entry.seq + 1
            said = (entry.value["version"], entry.value["tier"], entry.value["cluster"])
            if said != (1, "agent", "test"):
                raise Violated(f"ledger of {entry.source}: an entry of {said}")
        return cls(entries)

    def statements(self, kind: str, topic: str) -> list[Statement]:
        """The statements about a topic, with the window lengths of their entries."""
        return [
            {**each, "window_millis": entry.value["window_millis"]}
            for entry in self.entries
            for each in entry.value[kind]
            if each["topic"] == topic
        ]

    @property
    def agents(self) -> list[str]:
        """The journals, in the order of their first entries."""
        return list(dict.fromkeys(entry.source for entry in self.entries))

    @property
    def heartbeats(self) -> list[Statement]:
        return [each for entry in self.entries for each in entry.value["heartbeats"]]


def check_ledger(
    ledger: Ledger, topic: Content, *, topic_id: str | None = None
) -> dict[str, Account]:
    """The passages are the log, the runs are the events, and no byte of a file is left out."""
    passages = ledger.statements("passages", topic.name)
    for passage in passages:
        if topic_id is not None and passage["topic_id"] != topic_id:
            raise Violated(f"{topic.name}: its id is {topic_id}, not {passage['topic_id']}")
    with_offsets = [each for each in passages if each["partition"] >= 0]
    for passage in passages:
        if passage["partition"] < 0 and passage["offsets"]:
            raise Violated(f"{topic.name}: offsets without a partition")
    _check_offsets(with_offsets, topic)
    by_place = {(event.partition, event.offset): event for event in topic.events}
    for passage in with_offsets:
        _check_passage(passage, topic, by_place)
    return _check_runs(passages, ledger.statements("finished", topic.name), topic)


def printed(topic_id: Any) -> str:
    """A topic's ID as Kafka's tools print it; empty if there is none."""
    return "" if topic_id is None else urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _stretches(passage: Statement) -> list[range]:
    return [range(each["first"], each["first"] + each["count"]) for each in passage["offsets"]]


def _check_offsets(passages: Iterable[Statement], topic: Content) -> None:
    """Every batch lies in exactly one interval, which has nothing else."""
    spoken_of: Counter[tuple[int, int]] = Counter()
    edges: set[tuple[int, int]] = set()
    for passage in passages:
        last = -1
        for stretch in _stretches(passage):
            if stretch.start <= last or not stretch:
                raise Violated(f"{topic.name}: stretches in disorder: {passage['offsets']}")
            last = stretch.stop  # those that touch are taken together
            spoken_of.update((passage["partition"], offset) for offset in stretch)
            edges |= {(passage["partition"], stretch.start), (passage["partition"], stretch.stop)}
    there = {
        (partition, offset)
        for partition, header, _ in topic.batches
        for offset in range(header.base_offset, header.next_offset)
    }
    twice = sorted(place for place, times in spoken_of.items() if times > 1)
    if twice:
        raise Violated(f"{topic.name}: the ledger counts {len(twice)} offsets twice: {twice[:5]}")
    missing, beyond = there - spoken_of.keys(), spoken_of.keys() - there
    if missing:
        raise Violated(f"{topic.name}: {len(missing)} offsets not in the ledger: {min(missing)}")
    if beyond:
        raise Violated(f"{topic.name}: {len(beyond)} offsets that are not there: {min(beyond)}")
    ends = {(each.partition, each.header.base_offset) for each in topic.batches}
    ends |= {(each.partition, each.header.next_offset) for each in topic.batches}
    if edges - ends:
        raise Violated(f"{topic.name}: a stretch ends within a batch: {min(edges - ends)}")


def _check_passage(
    passage: Statement, topic: Content, by_place: Mapping[tuple[int, int], Event]
) -> None:
    """Its windows match its batches and events, and its runs name the events at its offsets."""
    partition, stretches = passage["partition"], _stretches(passage)
    window_millis = passage["window_millis"]
    where = f"{topic.name}-{partition} {stretches}"
    events = [by_place[partition, offset] for stretch in stretches for offset in stretch]
    wanted: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for event in events:
        wanted[event.timestamp // window_millis * window_millis][0] += 1
    batches = [
        each
        for each in topic.batches
        if each.partition == partition
        and any(each.header.base_offset in stretch for stretch in stretches)
    ]
    for each in batches:
        window = wanted[each.header.base_timestamp // window_millis * window_millis]
        window[1] += each.header.size
        window[2] += each.header.crc
    said = {
        each["start"]: [each["events"], each["bytes"], each["crc_sum"]]
        for each in passage["windows"]
    }
    if said != dict(wanted):
        raise Violated(f"{where}: the windows are {dict(wanted)}, the ledger says {said}")
    batches.sort(key=lambda each: each.header.base_offset)
    digest = sha256(b"".join(each.digest for each in batches)).digest()[:16]
    if batches and passage["digest"] != digest:
        raise Violated(f"{where}: the batches have another digest than the ledger says")
    named = [
        (run["source"], run["seq"] + at) for run in passage["runs"] for at in range(run["events"])
    ]
    found = [(event.source, event.seq) for event in events]
    if passage["runs"] and named != found:
        at = next((i for i, pair in enumerate(zip(named, found, strict=False))
                   if pair[0] != pair[1]), min(len(named), len(found)))  # fmt: skip
        raise Violated(
            f"{where}: {len(found)} events, {len(named)} in runs; at {at} "
            f"{found[at : at + 1]}, the runs say {named[at : at + 1]}"
        )
    if passage["delays"] and sum(passage["delays"]) != len(events):
        raise Violated(f"{where}: {sum(passage['delays'])} delays of {len(events)} events")


def _check_runs(
    passages: Iterable[Statement], finished: Iterable[Statement], topic: Content
) -> dict[str, Account]:
    runs: dict[str, list[Statement]] = defaultdict(list)
    for passage in passages:
        for run in passage["runs"]:
            runs[run["source"]].append(run)
    of_sources = topic.of_sources()
    without = of_sources.keys() - runs.keys()
    if without:
        raise Violated(f"{topic.name}: sources that the ledger does not know: {sorted(without)}")
    accounts = {
        source: _account(source, found, of_sources.get(source, []))
        for source, found in runs.items()
    }
    for each in finished:
        account = accounts.get(each["source"])
        if account is None:
            if each["size"]:
                raise Violated(f"{each['source']}: finished, and never spoken of")
            continue
        said = each["events"], each["size"]
        if said != (account.events, account.end):
            raise Violated(
                f"{each['source']}: finished with {said}, its runs come to "
                f"{account.events} events and {account.end} bytes"
            )
        account.finished = each
    return accounts


def _account(source: str, runs: list[Statement], events: Sequence[Event]) -> Account:
    """Runs are contiguous in bytes and seqs; each names the events that start in it."""
    runs.sort(key=lambda run: (run["position"], run["end_position"], run["seq"]))
    # A source may be spread over partitions.
    events = sorted(events, key=lambda event: event.seq)
    account = Account(first=runs[0]["position"], end=runs[0]["position"])
    starts = [event.position for event in events]
    for run in runs:
        where = f"{source}: run at {run['position']}"
        if run["position"] != account.end:
            raise Violated(f"{where}: the one before ends at {account.end}")
        if run["seq"] != account.events:
            raise Violated(f"{where}: seq {run['seq']} where {account.events} belongs")
        inside = starts[account.events : account.events + run["events"]]
        if len(inside) != run["events"]:
            raise Violated(f"{where}: {run['events']} events, {len(inside)} are there")
        if inside and not run["position"] <= inside[0] <= inside[-1] < run["end_position"]:
            raise Violated(f"{where} to {run['end_position']}: events {inside[0]} to {inside[-1]}")
        account.events += run["events"]
        account.lines += run["lines"] if run["lines"] >= 0 else run["events"]
        account.end = run["end_position"]
        account.path = account.path or run["path"]
        for each in run["excepted"]:
            account.excepted.append(
                Left(each["fate"], each["count"], each["bytes"], each["reason"])
            )
    if account.events != len(events):
        raise Violated(f"{source}: {len(events)} events, {account.events} in the ledger")
    return account
