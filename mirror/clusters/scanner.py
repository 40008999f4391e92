"""Scans the topics and leaders of both clusters, and creates or changes the copies at the target.
Blocks; used by one thread at a time.

Connections are kept between scans, and reopened after an error.

A target that does not know the mark of copies cannot keep offsets: this is detected before anything
is created there. If it supports transactions it is Apache Kafka, and gets a map
(mirror/kafka_target); otherwise it cannot be a target (`NoTarget`).
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from client.admin.topics import (
    add_partitions,
    all_topics,
    alter_topic,
    configs_of_topics,
    create_topic,
    topic_configs,
)
from client.connection.brokers import Brokers
from client.connection.metadata import ClusterMetadata, TopicMetadata
from client.errors import ClientError, ErrorCode, Refused
from client.reading.offsets import Beginning, start_offsets
from ledger.names import topic_id_text
from mirror.clusters.schema_ids import SchemaIds
from mirror.config import MirrorConfig, Side
from mirror.errors import NoTarget
from mirror.kafka_target.target import NOT_FOLLOWED, KafkaTarget, serves_transactions
from mirror.partitions.gaps import Gap, gaps_of, gaps_text
from mirror.partitions.lane import CLIENT_ID
from mirror.topics import SCHEMAS, Alter, Change, Create, Enlarge, Names, Topic, TopicCopy, plan
from wire.messages import create_topics
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from wire.mirrored import ACCEPT_GAP, MIRROR_OF, MirrorOf

log = logging.getLogger(__name__)

_PATIENCE_S: Final = 10.0
_PROBE: Final = "penstock-mirror-probe"


class Scan(msgspec.Struct, frozen=True):
    """The state of both clusters at `asked_at`, by the monotonic clock."""

    asked_at: float
    source: ClusterMetadata
    target: ClusterMetadata
    copies: Mapping[str, TopicCopy]
    troubles: Mapping[str, str] = {}  # by topics of the target
    has_changed: bool = False  # topics were changed: scan again


def names_of(config: MirrorConfig) -> Names:
    return Names(
        prefix=config.names_begin_with,
        strip=config.strip,
        topics=config.topics,
        exclude=config.exclude,
        schemas=config.schemas,
    )


class ClusterScanner:
    """Scans the clusters, and changes the target. Used by one thread at a time."""

    def __init__(self, config: MirrorConfig, patience_seconds: float = _PATIENCE_S) -> None:
        self._config = config
        self._patience_s = patience_seconds
        self._names = names_of(config)
        self._sides: dict[str, Brokers] = {}
        self.kafka: KafkaTarget | None = (
            None  # set by the first scan, if the target is Apache Kafka
        )
        self._is_known = False
        self._troubles: dict[str, str] = {}  # already logged
        copy_of_schemas = self._names.here(SCHEMAS)
        self.schema_ids = SchemaIds(copy_of_schemas) if copy_of_schemas else None

    def look(self) -> Scan:
        """Scans the clusters and applies changes to the target. Raises ClientError or NoTarget."""
        asked_at = time.monotonic()
        try:
            scan = self._planned(asked_at)
            source, target = self._side(self._config.source), self._side(self._config.target)
            troubles = dict(scan.troubles)
            has_changed = False
            for copy in scan.copies.values():
                for change in copy.changes:
                    has_changed |= self._try(source, target, copy, change, troubles)
            if self.schema_ids is not None:
                self.schema_ids.look(target, scan.target)
        except ClientError:
            self.close()
            raise
        if self.schema_ids is not None and self.schema_ids.trouble:
            troubles.setdefault(self.schema_ids.copy, self.schema_ids.trouble)
        self._tell(troubles)
        return replace(scan, troubles=troubles, has_changed=has_changed)

    def planned(self) -> Scan:
        """Returns the result of a scan, without changing the target. Raises ClientError or
        NoTarget."""
        return self._planned(time.monotonic())

    def _planned(self, asked_at: float) -> Scan:
        source, target = self._side(self._config.source), self._side(self._config.target)
        self._know_target(target)
        source_metadata, target_metadata = all_topics(source), all_topics(target)
        copy_names = {
            name: copy for name in source_metadata.topics if (copy := self._names.here(name))
        }
        troubles: dict[str, str] = {}
        target_topics = self._topics(
            target,
            target_metadata,
            self._of_interest(target_metadata, copy_names.values()),
            troubles,
        )
        kept_configs = frozenset(self._config.keep_configs)
        if self.kafka is not None:
            target_topics, kept_configs = (
                self.kafka.marked(target_topics),
                kept_configs | NOT_FOLLOWED,
            )
        copies = plan(
            self._names,
            self._config.source.cluster,
            self._topics(source, source_metadata, copy_names, troubles),
            target_topics,
            kept_configs,
        )
        return Scan(asked_at, source_metadata, target_metadata, copies, troubles)

    def set_gaps(self, here: str, changes: Mapping[int, Gap | None]) -> None:
        """Allows additional gaps in partitions of a copy; None forbids a gap again. Raises
        ClientError."""
        if self.kafka is not None:
            return  # there the map determines where a partition resumes
        target = self._side(self._config.target)
        configs = {config.name: config.value or "" for config in topic_configs(target, here)}
        gaps_before = gaps_of(configs.get(ACCEPT_GAP, ""))
        gaps_after = {**gaps_before, **changes}
        allowed_gaps = {partition: gap for partition, gap in gaps_after.items() if gap is not None}
        if allowed_gaps != gaps_before:
            alter_topic(target, here, {ACCEPT_GAP: gaps_text(allowed_gaps)})

    def close(self) -> None:
        """Closes connections; the next request reopens them."""
        for side in self._sides.values():
            side.close()
        self._sides.clear()

    def end(self) -> None:
        self.close()
        if self.kafka is not None:
            self.kafka.close()

    def _side(self, side: Side) -> Brokers:
        brokers = self._sides.get(side.cluster)
        if brokers is None:
            brokers = self._sides[side.cluster] = Brokers(
                side.bootstrap, client_id=CLIENT_ID, patience_seconds=self._patience_s
            )
        return brokers

    def _know_target(self, target: Brokers) -> None:
        if self._is_known:
            return
        side = self._config.target
        if serves_transactions(target):
            if side.zookeeper:
                raise NoTarget(
                    f"the cluster {side.cluster} is Apache Kafka, where workers do not share "
                    "partitions: remove `target.zookeeper`, and run one worker"
                )
            if side.registry:
                raise NoTarget(
                    f"the cluster {side.cluster} is Apache Kafka, where copies have their own "
                    "offsets, which a ledger cannot describe: remove "
                    "`target.registry`"
                )
            self.kafka = KafkaTarget(side.bootstrap, CLIENT_ID, self._config.name)
            log.info(
                "target is Apache Kafka: offsets are mapped, not kept cluster=%s map=%s",
                *(side.cluster, self.kafka.map_name),
            )
        else:
            check_keeps_offsets(target, side.cluster)
        self._is_known = True

    def _of_interest(self, metadata: ClusterMetadata, copies: Iterable[str]) -> set[str]:
        """Copies, including those whose source is gone."""
        prefix = self._names.prefix
        names = {name for name in metadata.topics if prefix and name.startswith(prefix)}
        return names | (set(copies) & metadata.topics.keys())

    def _topics(
        self,
        brokers: Brokers,
        metadata: ClusterMetadata,
        names: Collection[str],
        troubles: dict[str, str],
    ) -> dict[str, Topic]:
        """The topics with their configs; topics that do not show them are added to `troubles`."""
        topics = {
            name: topic
            for name in names
            if (topic := metadata.topics.get(name)) is not None and topic.error is ErrorCode.none
        }
        configs, errors = configs_of_topics(brokers, topics)
        troubles.update({name: str(error) for name, error in errors.items()})
        return {
            name: _topic(
                topic,
                {
                    config.name: config.value or ""
                    for config in configs[name]
                    if not config.is_default
                },
            )
            for name, topic in topics.items()
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
                return True  # another worker has created it
            troubles[copy.here] = str(error)
            return False
        return True

    def _change(self, source: Brokers, target: Brokers, copy: TopicCopy, change: Change) -> None:
        match change:
            case Create(name, partitions, configs) if self.kafka is not None:
                configs_there = self.kafka.about_to_create(name, configs)
                create_topic(target, name, partitions=partitions, configs=configs_there)
                log.info("topic created topic=%s partitions=%d", name, partitions)
            case Create(name, partitions, configs):
                gaps = gaps_text(_above_zero(source, copy.there, range(partitions)))
                gap_config = {ACCEPT_GAP: gaps} if gaps else {}
                create_topic(
                    target, name, partitions=partitions, configs=dict(configs) | gap_config
                )
                log.info("topic created topic=%s partitions=%d", name, partitions)
            case Enlarge(name, partitions):
                if (
                    self.kafka is None
                ):  # before the partitions exist, so that they begin with their gaps
                    topic = target.refresh([name]).topic(name)
                    new_partitions = range(len(topic.partitions), partitions)
                    self.set_gaps(name, _above_zero(source, copy.there, new_partitions))
                add_partitions(target, name, partitions)
                log.info("topic enlarged topic=%s partitions=%d", name, partitions)
            case Alter(name, configs):
                alter_topic(target, name, configs)
                log.info("topic altered topic=%s configs=%s", name, ",".join(sorted(configs)))

    def _tell(self, troubles: Mapping[str, str]) -> None:
        """Log each trouble once, until it changes."""
        for name, reason in troubles.items():
            if self._troubles.get(name) != reason:
                log.warning("cannot copy topic topic=%s reason=%r", name, reason)
        self._troubles = dict(troubles)


def check_keeps_offsets(target: Brokers, cluster: str) -> None:
    """Checks that the cluster can keep offsets. Raises NoTarget or ClientError."""
    mark = str(MirrorOf("penstock", _PROBE, ""))
    topic_config = CreatableTopic(
        name=_PROBE,
        num_partitions=1,
        replication_factor=-1,
        configs=(CreatableTopicConfig(name=MIRROR_OF, value=mark),),
    )
    request = CreateTopicsRequest(topics=(topic_config,), timeout=10_000, validate_only=True)
    for topic in target.call_controller(create_topics.API, request).topics:
        if topic.error_code in {ErrorCode.invalid_config, ErrorCode.invalid_request}:
            raise NoTarget(
                f"the cluster {cluster} does not support copies "
                f"({topic.error_message or 'no such config'}): only Penstock's brokers of this "
                "version or later can keep offsets"
            )


def _topic(known: TopicMetadata, configs: Mapping[str, str]) -> Topic:
    return Topic(known.name, topic_id_text(known.id), len(known.partitions), configs)


def _above_zero(source: Brokers, there: str, partitions: Iterable[int]) -> dict[int, Gap]:
    """Gaps that let a copy begin where the source does, for partitions that begin above 0. Raises
    Refused at once if one has no leader, since its beginning is unknown; ClientError."""
    topic = source.known.topic(there)
    with_leaders = [topic.partition(index).index for index in partitions]
    starts = start_offsets(source, there, with_leaders, Beginning())
    return {index: Gap(0, start) for index, start in starts.items() if start > 0}
