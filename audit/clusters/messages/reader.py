"""Reads messages of one partition for the page, with the audit's own credentials.

Rule 1: One reading has at most `seconds`, 1 MiB from the broker, 16 MiB unpacked, and 50 messages.
        The answer ends where a limit is reached, and the next reading continues there.
Rule 2: No part of a message is kept after the answer. Schemas are, since they never change.
Rule 3: Brokers decide, too: what the audit's login may not read is not shown, and the error has the
        command that grants the right.
"""

import shlex
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from typing import Final

import msgspec
from msgspec.structs import replace

from audit.api.queries import MessagesQuery
from audit.clusters.messages.answers import MessageKind, Messages, ShownMessage
from audit.clusters.messages.rendering import Showing, instead
from audit.configuration.config import Cluster
from audit.errors import BadQuery, NotRead, Unknown
from audit.errors import NotAllowed as NotShown
from client.connection.brokers import Brokers
from client.errors import ClientError, ErrorCode, NotAllowed, Refused, UnknownTopic
from client.producing.delivery import TopicPartition
from client.reading.excerpt import Content, Piece, bounds, pieces
from client.reading.offsets import offsets_of
from client.rights import Right
from ledger.names import topic_id_text
from schemas.registry_client import RegistryClient
from wire.acls import USER, Operation
from wire.errors import BatchError
from wire.record_batches.compression import TooLarge
from wire.record_batches.records import records

MOST_BYTES: Final = 1024 * 1024

_MOST_UNPACKED: Final = 16 * MOST_BYTES

Paths = Callable[[Collection[str]], Mapping[str, str]]


class MessageReader:
    """Reads messages, on any thread. `paths` returns the file of each source."""

    def __init__(self, clusters: Mapping[str, Cluster], paths: Paths, seconds: float) -> None:
        self._clusters = clusters
        self._paths = paths
        self._seconds = seconds
        self._registries: dict[str, RegistryClient] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        for registry in self._registries.values():
            registry.close()

    def read(self, query: MessagesQuery) -> Messages:
        """Reads messages for the page. Raises Unanswerable."""
        name = self._cluster(query.cluster)
        deadline = time.monotonic() + self._seconds
        try:
            with Brokers(
                self._clusters[name].bootstrap,
                client_id="penstock-audit",
                patience_seconds=self._seconds / 2,
                contact_seconds=self._seconds,
            ) as brokers:
                return self._read(brokers, name, query, deadline)
        except UnknownTopic:
            raise Unknown(f"cluster {name} has no topic {query.topic[:300]}") from None
        except NotAllowed as error:
            refusal = NotShown(f"the brokers of {name} rejected the request: {error}")
            refusal.command = _command(error.right)
            raise refusal from None
        except Refused as error:
            if error.code is ErrorCode.invalid_partitions:
                raise Unknown(str(error)) from None
            raise NotRead(f"the brokers of {name} rejected the request: {error}") from None
        except ClientError as error:
            raise NotRead(f"the brokers of {name} did not answer the request: {error}") from None

    def _cluster(self, name: str) -> str:
        if name in self._clusters:
            return name
        if name or len(self._clusters) > 1:
            raise BadQuery(f"`cluster` must be one of {', '.join(self._clusters)}")
        return next(iter(self._clusters))

    def _read(self, brokers: Brokers, name: str, query: MessagesQuery, until: float) -> Messages:
        topic = brokers.topic(query.topic, Operation.READ)
        topic_id = topic_id_text(topic.id)
        if query.topic_id not in {"", topic_id}:
            raise Unknown(
                f"topic {query.topic} was recreated: the messages of the former topic are gone"
            )
        topic.partition(query.partition)
        target = TopicPartition(query.topic, query.partition)
        first, end = bounds(brokers, target)
        start, end_offset = _stretch(brokers, target, query, first, end)
        items: list[ShownMessage] = []
        next_offset = start
        showing = Showing(self._registry(name).schema_of_message)
        log_pieces = pieces(brokers, target, start, end_offset, most_bytes=MOST_BYTES, until=until)
        with closing(log_pieces):
            for message in _shown(log_pieces, showing, end_offset):
                last_item = items[-1] if items else None
                if last_item and message.kind is MessageKind.GAP and _continues(last_item, message):
                    items[-1] = replace(last_item, end=message.end)
                else:
                    items.append(message)
                next_offset = message.end
                if len(items) >= query.size or time.monotonic() >= until:
                    break
        paths = self._paths({item.source for item in items if item.source})
        return Messages(
            cluster=name,
            topic=query.topic,
            topic_id=topic_id,
            partition=query.partition,
            partitions=len(topic.partitions),
            first=first,
            end=end,
            from_offset=start,
            to_offset=next_offset,
            items=[replace(item, path=paths.get(item.source, "")) for item in items],
        )

    def _registry(self, name: str) -> RegistryClient:
        with self._lock:
            registry = self._registries.get(name)
            if registry is None:
                registry = self._registries[name] = RegistryClient(
                    self._clusters[name].registry_address,
                    patience_seconds=self._seconds / 3,
                    first_contact_seconds=0,
                    attempt_seconds=self._seconds / 3,
                )
            return registry


def _stretch(
    brokers: Brokers, target: TopicPartition, query: MessagesQuery, first: int, end: int
) -> tuple[int, int]:
    """Returns the offsets to read: first and end."""
    if query.before is not None:
        end_offset = max(first, min(query.before, end))
        return max(first, end_offset - query.size), end_offset
    start = query.offset
    if start is None and query.time is not None:
        start = offsets_of(brokers, {target: query.time})[target]
    if start is None or not 0 <= start < end:
        start = end - query.size
    return max(first, start), end


def _shown(pieces_: Iterator[Piece], showing: Showing, stop: int) -> Iterator[ShownMessage]:
    """Yields messages, and what is shown in place of others."""
    for piece in pieces_:
        if piece.content is not Content.RECORDS:
            yield instead(piece)
            continue
        next_offset = piece.first
        try:
            for record in records(piece.data, _MOST_UNPACKED):
                if piece.first <= record.offset < stop:
                    next_offset = record.offset + 1
                    yield showing.message(record)
        except BatchError as error:
            content = Content.LONG if isinstance(error, TooLarge) else Content.DAMAGED
            reason = f"the batch has {error}" if content is Content.LONG else str(error)
            remainder = msgspec.structs.replace(
                piece, first=next_offset, content=content, why=reason
            )
            yield instead(remainder)
            continue
        if next_offset < piece.end <= stop:  # compaction has kept the batch's end alone
            reason = "removed by compaction"
            yield instead(
                msgspec.structs.replace(piece, first=next_offset, content=Content.GAP, why=reason)
            )


def _continues(before: ShownMessage, gap: ShownMessage) -> bool:
    return (before.kind, before.end, before.remark) == (gap.kind, gap.offset, gap.remark)


def _command(right: Right) -> str:
    """Returns the command that grants a right to the audit's user, or to PRINCIPAL if only the
    brokers know who that is."""
    name = right.who.removeprefix(USER)
    principal = name if right.who.startswith(USER) and " " not in name else "PRINCIPAL"
    return shlex.join(
        ["penstock", "acls", "add", principal, "--operation", "read", "--topic", right.name]
    )
