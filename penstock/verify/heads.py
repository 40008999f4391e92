"""Checks heads files: which agents' signed statements a certificate rests on.

A file is checked once, whichever hours and tables name it: its digest, each signature, and that an
entry is a heartbeat of the agent that it is said to be of. Each hour is then checked by topic: the
heads of all agents that ship to it must reach past its end.

Two files in succession are compared: an agent that had a head is in the later file, too, for as
long as an audit knows it, and its entries' numbers grow. So whoever leaves out a host must leave it
out from the beginning; the keys of agents that must be there tell even that.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from ground.signatures.keys import PublicKey
from ledger.certificate_requests import time_text
from ledger.heads_files import (
    KEPT_MILLIS,
    MOST_BYTES,
    Absent,
    BadHead,
    BadHeads,
    Head,
    HeadEntry,
    HeadReader,
    Heads,
    checked_entry,
    is_named_for,
    is_path_of,
    sha256_of,
)
from ledger.hour_certificates import Certificate, HeadsFile
from ledger.source_ids import journal_id
from loader.values.tables import HOUR_MILLIS
from penstock.verify.faults import Fault, Kind
from penstock.verify.keys import TrustedKeys
from penstock.verify.layout import HourFolder
from penstock.verify.store import Store, Unreadable, read
from penstock.verify.times import millis

_NEVER: Final = 1 << 62


class TopicHeads(msgspec.Struct):
    """What a file says about one topic."""

    agents: int = 0  # also those without a head
    until: int = _NEVER  # the least time of all heads
    host: str = ""  # whose head that is
    absent: list[str] = []  # agents without a head, in words


class _KnownHead(NamedTuple):
    host: str
    seq: int
    time: int  # of the entry
    is_named: bool  # whether the journal is named for the key


class _Known(msgspec.Struct, frozen=True):
    """What later files are compared with."""

    path: str
    made_at: int
    heads: Mapping[str, "_KnownHead"]  # by agent
    agents: frozenset[str]
    hosts: frozenset[str]


class _CheckedFile(msgspec.Struct, frozen=True):
    """The result for one file; without a path nothing of it is known."""

    faults: tuple[Fault, ...] = ()
    cluster: str = ""
    topics: Mapping[str, TopicHeads] = {}
    known: _Known | None = None


class CheckedHeads(msgspec.Struct, frozen=True):
    """The result for one certificate."""

    faults: tuple[Fault, ...] = ()
    absent: tuple[str, ...] = ()  # agents of the topic without a head, in words


class HeadsChecker:
    """Checks the heads files of a root. For one thread."""

    def __init__(self, store: Store, keys: TrustedKeys, *, allow_missing: bool = False) -> None:
        self._store = store
        self._keys = keys
        self._allow_missing = allow_missing
        self._files: dict[str, _CheckedFile] = {}  # by digest
        self._last: dict[str, _Known] = {}  # by cluster: the file that was checked last
        self._newest: dict[str, _Known] = {}  # by table

    def check(self, certificate: Certificate, folder: HourFolder) -> CheckedHeads:
        """Checks the heads that a certificate, which is believed, names."""
        path, end = folder.certificate, folder.hour + HOUR_MILLIS
        named = certificate.predicate.heads
        if named is None:
            return CheckedHeads()
        if not is_path_of(named.path, named.sha256):
            words = f"names {named.path}, which is no name for the heads file that it certifies"
            return CheckedHeads((Fault(kind=Kind.CONTRADICTION, path=path, words=words),))
        file = self._files.get(named.sha256)
        if file is None:
            file = self._files[named.sha256] = self._checked(named)
        if file.known is None:
            return CheckedHeads(file.faults)
        self._note_newest(certificate.predicate.table, file.known)
        faults = [*file.faults, *_hour_faults(certificate, named, file, path, end)]
        topic = file.topics.get(named.topic, TopicHeads())
        return CheckedHeads(tuple(faults), tuple(topic.absent))

    def lacking_keys(self, table: str) -> Iterator[Fault]:
        """Finds the agents' keys of which the newest heads file of a table has no agent."""
        newest = self._newest.get(table)
        if newest is None:
            return
        for key, file, host in self._keys.agents:
            if host not in newest.hosts and journal_id(PublicKey(key)) not in newest.agents:
                words = f"has no agent of the host {host}, whose key {file} is"
                yield Fault(kind=Kind.MISSING_HEAD, path=newest.path, words=words)

    def _note_newest(self, table: str, known: _Known) -> None:
        newest = self._newest.get(table)
        if newest is None or known.made_at >= newest.made_at:
            self._newest[table] = known

    def _checked(self, named: HeadsFile) -> _CheckedFile:
        path = named.path
        try:
            content = read(self._store, path, MOST_BYTES)
        except Unreadable as error:
            return _CheckedFile((Fault(kind=Kind.UNREADABLE, path=path, words=str(error)),))
        if content is None:
            words = "is named by a certificate, and is missing"
            fault = Fault(kind=Kind.MISSING_HEADS, path=path, words=words)
            return _CheckedFile(() if self._allow_missing else (fault,))
        faults: list[Fault] = []
        digest = sha256_of(content)
        if digest != named.sha256:
            words = f"is not the file that was certified: its digest is {digest}"
            faults.append(Fault(kind=Kind.CHANGED_HEADS, path=path, words=words))
        try:
            heads = Heads.decode(content)
            made_at = millis(heads.made_at)
            reader = HeadReader.of(heads)
        except (BadHeads, ValueError) as error:
            faults = faults or [Fault(kind=Kind.WRONG_HEAD, path=path, words=f"is {error}")]
            return _CheckedFile(tuple(faults))
        return self._checked_heads(heads, reader, made_at, path, faults)

    def _checked_heads(
        self, heads: Heads, reader: HeadReader, made_at: int, path: str, faults: list[Fault]
    ) -> _CheckedFile:
        """Checks all heads. The first fault of each kind is kept, and the others are counted."""
        entries: dict[str, HeadEntry] = {}
        by_kind: dict[Kind, list[str]] = {}
        for head in heads.heads:
            try:
                entries[head.agent] = checked_entry(head, reader)
                self._check_key(head, entries[head.agent], heads)
            except BadHead as error:
                words = f"the head of {head.host} ({head.agent}) {error}"
                by_kind.setdefault(Kind.WRONG_HEAD, []).append(words)
            except _UnknownAgent as error:
                by_kind.setdefault(Kind.UNKNOWN_AGENT, []).append(str(error))
        known = _Known(
            path,
            made_at,
            {
                head.agent: _KnownHead(
                    entry.host, entry.seq, entry.time, is_named_for(head.agent, head.key)
                )
                for head in heads.heads
                for entry in (entries.get(head.agent),)
                if entry is not None
            },
            frozenset(agent.agent for agent in heads.agents),
            frozenset(agent.host for agent in heads.agents),
        )
        last = self._last.get(heads.cluster)
        if last is not None:
            earlier, later = sorted((last, known), key=lambda known: known.made_at)
            for kind, words in _compared(earlier, later):
                by_kind.setdefault(kind, []).append(f"{words}, which {earlier.path} has")
        self._last[heads.cluster] = known
        for kind, texts in by_kind.items():
            more = f", and {len(texts) - 1:,} more" if len(texts) > 1 else ""
            faults.append(Fault(kind=kind, path=path, words=f"has a fault: {texts[0]}{more}"))
        return _CheckedFile(tuple(faults), heads.cluster, _by_topic(heads, entries), known)

    def _check_key(self, head: Head, entry: HeadEntry, heads: Heads) -> None:
        """Raises BadHead, _UnknownAgent."""
        topics = frozenset[str]().union(*(beat.topics for beat in entry.heartbeats))
        if unlisted := topics.difference(heads.topic_sets[head.topics]):
            words = f"names the topic {min(unlisted)}, to which it does not ship by this file"
            raise BadHead(words)
        if self._keys.agents and not self._keys.has_agent(head.key):
            words = f"the key of {head.host} ({head.agent}) is not among the agents' keys"
            raise _UnknownAgent(words)


class _UnknownAgent(Exception):
    """The key of an agent is not trusted; the message says of which."""


def _by_topic(heads: Heads, entries: Mapping[str, HeadEntry]) -> dict[str, TopicHeads]:
    topics: dict[str, TopicHeads] = {}
    for agent in heads.agents:
        entry = entries.get(agent.agent)
        for topic in heads.topic_sets[agent.topics]:
            summary = topics.setdefault(topic, TopicHeads())
            summary.agents += 1
            if isinstance(agent, Absent):
                summary.absent.append(_absent_words(agent))
            elif entry is not None and entry.until_in(topic) < summary.until:
                summary.until, summary.host = entry.until_in(topic), agent.host
    return topics


def _absent_words(agent: Absent) -> str:
    words = f": {agent.words}" if agent.words else ""
    return f"{agent.host} ({agent.reason.value}{words})"


def _hour_faults(
    certificate: Certificate, named: HeadsFile, file: _CheckedFile, path: str, end: int
) -> Iterator[Fault]:
    predicate = certificate.predicate
    if named.cluster != file.cluster or named.cluster not in {
        predicate.cluster,
        *predicate.origins,
    }:
        words = f"names heads of the cluster {named.cluster}, and its file has {file.cluster}"
        yield Fault(kind=Kind.CONTRADICTION, path=path, words=words)
        return
    topic = file.topics.get(named.topic, TopicHeads())
    if topic.agents != named.agents or not topic.agents:
        words = (
            f"has {topic.agents:,} agents of {named.topic}, and {path} rests on {named.agents:,}"
        )
        yield Fault(kind=Kind.MISSING_HEAD, path=named.path, words=words)
    if topic.until < end:
        reached = time_text(topic.until) if topic.until > 0 else "nowhere"
        words = (
            f"has a fault: the head of {topic.host} reaches {reached} in {named.topic}, and the "
            f"hour of {path} ends {time_text(end)}"
        )
        yield Fault(kind=Kind.WRONG_HEAD, path=named.path, words=words)


def _compared(earlier: _Known, later: _Known) -> Iterator[tuple[Kind, str]]:
    for agent, before in earlier.heads.items():
        head = later.heads.get(agent)
        if agent not in later.agents:
            if min(before.time, earlier.made_at) > later.made_at - KEPT_MILLIS:
                yield Kind.MISSING_HEAD, f"there is no agent {agent} of {before.host}"
        elif head is not None and head.seq < before.seq:
            words = f"the head of {head.host} is entry {head.seq}, before entry {before.seq}"
            yield Kind.WRONG_HEAD, words
        elif head is not None and before.is_named and not head.is_named:
            yield Kind.WRONG_HEAD, f"the head of {head.host} has another key than the one"
