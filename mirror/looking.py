"""A look at both clusters: what topics there are, who leads what, and what was to be done at the
target so that they can be copied. Blocks; one thread at a time.

Connections are kept from one look to the next, and made anew after an error.

A target that does not know the mark of copies cannot keep offsets: that is found before anything is
created there. If it serves transactions it is Apache Kafka, and gets a map of its own
(mirror/kafka_target); otherwise it is none (`NoTarget`).
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from client.admin import (
    add_partitions,
    all_topics,
    alter_topic,
    configs_of_topics,
    create_topic,
    topic_configs,
)
from client.brokers import Brokers
from client.errors import ClientError, ErrorCode, Refused
from client.metadata import ClusterMetadata, TopicMetadata
from client.offsets import Beginning, start_offsets
from ledger.names import topic_id_text
from mirror.batches import Gap
from mirror.config import MirrorConfig, Side
from mirror.errors import NoTarget
from mirror.kafka_target.target import NOT_FOLLOWED, KafkaTarget, serves_transactions
from mirror.lane import CLIENT_ID
from mirror.schema_ids import SchemaIds
from mirror.topics import (
    SCHEMAS,
    Alter,
    Change,
    Create,
    Enlarge,
    Names,
    Topic,
    TopicCopy,
    gaps_of,
    gaps_text,
    plan,
)
from wire.messages import create_topics
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from wire.mirrored import ACCEPT_GAP, MIRROR_OF, MirrorOf

log = logging.getLogger(__name__)

_PATIENCE_S: Final = 10.0
_PROBE: Final = "penstock-mirror-probe"


class Seen(msgspec.Struct, frozen=True):
    """As both clusters were at `asked_at`, by the monotonic clock."""

    asked_at: float
    source: ClusterMetadata
    target: ClusterMetadata
    copies: Mapping[str, TopicCopy]
    troubles: Mapping[str, str] = {}  # by topics of the target
    has_changed: bool = False  # something was changed: look again


def names_of(config: MirrorConfig) -> Names:
    return Names(
        prefix=config.names_begin_with,
        strip=config.strip,
        topics=config.topics,
        exclude=config.exclude,
        schemas=config.schemas,
    )


class Looking:
    """See the module."""

    def __init__(self, config: MirrorConfig, patience_seconds: float = _PATIENCE_S) -> None:
        self._config = config
        self._patience_s = patience_seconds
        self._names = names_of(config)
        self._sides: dict[str, Brokers] = {}
        self.kafka: KafkaTarget | None = None  # since the first look, if the target is
        self._is_known = False
        self._troubles: dict[str, str] = {}  # that were told
        copy_of_schemas = self._names.here(SCHEMAS)
        self.schema_ids = SchemaIds(copy_of_schemas) if copy_of_schemas else None

    def look(self) -> Seen:
        """Raises ClientError; NoTarget."""
        asked_at = time.monotonic()
        try:
            seen = self._planned(asked_at)
            source, target = self._side(self._config.source), self._side(self._config.target)
            troubles = dict(seen.troubles)
            has_changed = False
            for copy in seen.copies.values():
                for change in copy.changes:
                    has_changed |= self._try(source, target, copy, change, troubles)
            if self.schema_ids is not None:
                self.schema_ids.look(target, seen.target)
        except ClientError:
            self.close()
            raise
        if self.schema_ids is not None and self.schema_ids.trouble:
            troubles.setdefault(self.schema_ids.copy, self.schema_ids.trouble)
        self._tell(troubles)
        return replace(seen, troubles=troubles, has_changed=has_changed)

    def planned(self) -> Seen:
        """What a look would find; nothing is changed. Raises ClientError; NoTarget."""
        return self._planned(time.monotonic())

    def _planned(self, asked_at: float) -> Seen:
        source, target = self._side(self._config.source), self._side(self._config.target)
        self._know_target(target)
        there, here = all_topics(source), all_topics(target)
        wanted = {name: each for name in there.topics if (each := self._names.here(name))}
        troubles: dict[str, str] = {}
        copied = self._topics(target, here, self._of_interest(here, wanted.values()), troubles)
        keep = frozenset(self._config.keep_configs)
        if self.kafka is not None:
            copied, keep = self.kafka.marked(copied), keep | NOT_FOLLOWED
        copies = plan(
            self._names,
            self._config.source.cluster,
            self._topics(source, there, wanted, troubles),
            copied,
            keep,
        )
        return Seen(asked_at, there, here, copies, troubles)

    def set_gaps(self, here: str, changes: Mapping[int, Gap | None]) -> None:
        """Which gaps the target takes in partitions of a copy, beside those that it takes already;
        None for none. Raises ClientError."""
        if self.kafka is not None:
            return  # there the map says where a partition goes on
        target = self._side(self._config.target)
        configs = {each.name: each.value or "" for each in topic_configs(target, here)}
        before = gaps_of(configs.get(ACCEPT_GAP, ""))
        after = {**before, **changes}
        kept = {partition: gap for partition, gap in after.items() if gap is not None}
        if kept != before:
            alter_topic(target, here, {ACCEPT_GAP: gaps_text(kept)})

    def close(self) -> None:
        """What is asked next connects anew."""
        for each in self._sides.values():
            each.close()
        self._sides.clear()

    def end(self) -> None:
        self.close()
        if self.kafka is not None:
            self.kafka.close()

    def _side(self, side: Side) -> Brokers:
        found = self._sides.get(side.cluster)
        if found is None:
            found = self._sides[side.cluster] = Brokers(
                side.bootstrap, client_id=CLIENT_ID, patience_seconds=self._patience_s
            )
        return found

    def _know_target(self, target: Brokers) -> None:
        if self._is_known:
            return
        side = self._config.target
        if serves_transactions(target):
            if side.zookeeper:
                raise NoTarget(
                    f"the cluster {side.cluster} is Apache Kafka, where workers do not share "
                    "partitions: leave out `target.zookeeper`, and run one worker"
                )
            if side.registry:
                raise NoTarget(
                    f"the cluster {side.cluster} is Apache Kafka, where copies have offsets of "
                    "their own, so nothing of them can be told to a ledger: leave out "
                    "`target.registry`"
                )
            self.kafka = KafkaTarget(side.bootstrap, CLIENT_ID, self._config.name)
            log.info(
                "target is apache kafka: offsets are not kept, they are mapped cluster=%s map=%s",
                *(side.cluster, self.kafka.map_name),
            )
        else:
            check_keeps_offsets(target, side.cluster)
        self._is_known = True

    def _of_interest(self, known: ClusterMetadata, wanted: Iterable[str]) -> set[str]:
        """Copies, and what may be one whose source is gone."""
        prefix = self._names.prefix
        begun = {name for name in known.topics if prefix and name.startswith(prefix)}
        return begun | (set(wanted) & known.topics.keys())

    def _topics(
        self,
        brokers: Brokers,
        known: ClusterMetadata,
        names: Collection[str],
        troubles: dict[str, str],
    ) -> dict[str, Topic]:
        """With their configs; what does not show these is in trouble."""
        there = {
            name: topic
            for name in names
            if (topic := known.topics.get(name)) is not None and topic.error is ErrorCode.none
        }
        configs, refused = configs_of_topics(brokers, there)
        troubles.update({name: str(error) for name, error in refused.items()})
        return {
            name: _topic(topic, {e.name: e.value or "" for e in configs[name] if not e.is_default})
            for name, topic in there.items()
            if name in configs
        }

    def _try(
        self,
        source: Brokers,
        target: Brokers,
        copy: TopicCopy,
        change: Change,
        troubles: dict[str, str],
    ) -> bool:
        try:
            self._change(source, target, copy, change)
        except Refused as error:
            if error.code is ErrorCode.topic_already_exists:
                return True  # another worker was faster
            troubles[copy.here] = str(error)
            return False
        return True

    def _change(self, source: Brokers, target: Brokers, copy: TopicCopy, change: Change) -> None:
        match change:
            case Create(name, partitions, configs) if self.kafka is not None:
                own = self.kafka.about_to_create(name, configs)
                create_topic(target, name, partitions=partitions, configs=own)
                log.info("topic created topic=%s partitions=%d", name, partitions)
            case Create(name, partitions, configs):
                gaps = gaps_text(_above_zero(source, copy.there, range(partitions)))
                above = {ACCEPT_GAP: gaps} if gaps else {}
                create_topic(target, name, partitions=partitions, configs=dict(configs) | above)
                log.info("topic created topic=%s partitions=%d", name, partitions)
            case Enlarge(name, partitions):
                if self.kafka is None:  # before the partitions: else they might begin without
                    known = target.refresh([name]).topic(name)
                    added = range(len(known.partitions), partitions)
                    self.set_gaps(name, _above_zero(source, copy.there, added))
                add_partitions(target, name, partitions)
                log.info("topic enlarged topic=%s partitions=%d", name, partitions)
            case Alter(name, configs):
                alter_topic(target, name, configs)
                log.info("topic altered topic=%s configs=%s", name, ",".join(sorted(configs)))

    def _tell(self, troubles: Mapping[str, str]) -> None:
        """Each once, while it is the same."""
        for name, reason in troubles.items():
            if self._troubles.get(name) != reason:
                log.warning("topic cannot be followed topic=%s reason=%r", name, reason)
        self._troubles = dict(troubles)


def check_keeps_offsets(target: Brokers, cluster: str) -> None:
    """Raises NoTarget; ClientError."""
    mark = str(MirrorOf("penstock", _PROBE, ""))
    wanted = CreatableTopic(
        name=_PROBE,
        num_partitions=1,
        replication_factor=-1,
        configs=(CreatableTopicConfig(name=MIRROR_OF, value=mark),),
    )
    request = CreateTopicsRequest(topics=(wanted,), timeout=10_000, validate_only=True)
    for each in target.call_controller(create_topics.API, request).topics:
        if each.error_code in {ErrorCode.invalid_config, ErrorCode.invalid_request}:
            raise NoTarget(
                f"the cluster {cluster} knows no copies "
                f"({each.error_message or 'no such config'}): offsets can be kept in a cluster of "
                "Penstock's brokers alone, of this version or a later one"
            )


def _topic(known: TopicMetadata, configs: Mapping[str, str]) -> Topic:
    return Topic(known.name, topic_id_text(known.id), len(known.partitions), configs)


def _above_zero(source: Brokers, there: str, partitions: Iterable[int]) -> dict[int, Gap]:
    """That a copy may begin where the source does, of those partitions that begin above 0. Raises
    Refused, at once where one has no leader: nobody knows where it begins. ClientError."""
    known = source.known.topic(there)
    led = [known.partition(each).index for each in partitions]
    starts = start_offsets(source, there, led, Beginning())
    return {each: Gap(0, start) for each, start in starts.items() if start > 0}
