"""The configs that a topic can have: Kafka's names, with their meaning in Penstock.

Every name of Kafka 3.2 is here, and later ones that templates have, so that tools can set them.
Confluent's are accepted as long as they switch nothing on. If Penstock does not act on a config, or
gives it another meaning or default, its documentation says so: `describe configs` shows that text.
"""

import re
from difflib import get_close_matches
from typing import Final

import msgspec

from broker.configs.config_values import (
    MAX_LONG,
    Value,
    ValueType,
    boolean,
    cuts,
    fraction,
    gaps,
    integer,
    left_off,
    long,
    mark_of_copy,
    never,
    one_of,
    release_of_kafka,
    some_of,
    text_of,
    throttled_replicas,
)
from broker.errors import ApiError, ErrorCode
from wire.mirrored import ACCEPT_GAP, CUT, MIRROR_OF, PAUSED


class ConfigKey(msgspec.Struct, frozen=True):
    """One config: its type, its built-in default, and the broker config that sets the default, if
    any."""

    name: str
    type: ValueType
    default: str
    broker_name: str
    documentation: str
    is_used: bool = True
    """Whether Penstock acts on it. If not, it is kept, and the log says so."""

    def read(self, text: str) -> Value:
        try:
            return self.type.read(text)
        except ValueError as error:
            raise ApiError(
                ErrorCode.invalid_config,
                f"Invalid value {text[:100]!r} for configuration {self.name}: {error}",
            ) from None

    def canonical(self, text: str) -> str:
        return text_of(self.read(text))


FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"

_UNUSED = " Kept for Kafka's tools; Penstock does not act on it."
_CONFLUENTS: Final = re.compile(r"confluent\.[a-z0-9._]{1,100}")

_KEYS = (
    ConfigKey(
        "cleanup.policy",
        some_of("delete", "compact"),
        "delete",
        "log.cleanup.policy",
        "What happens to old records: 'delete' removes whole segments by retention.ms and "
        "retention.bytes, 'compact' keeps the last record of each key; both may be set.",
    ),
    ConfigKey(
        "compression.type",
        one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "producer",
        "compression.type",
        "Batches are stored and served as the producer sent them, whatever this says. Values "
        "other than 'producer' are kept for Kafka's tools; Penstock does not act on them.",
        is_used=False,
    ),
    *(
        ConfigKey(
            f"compression.{codec}.level",
            integer(low, high),
            default,
            f"compression.{codec}.level",
            f"The level at which Kafka compresses with {codec}." + _UNUSED,
            is_used=False,
        )
        for codec, low, high, default in (
            ("gzip", -1, 9, "-1"),
            ("lz4", 1, 17, "9"),
            ("zstd", -131072, 22, "3"),
        )
    ),
    ConfigKey(
        "delete.retention.ms",
        long(0),
        "86400000",
        "log.cleaner.delete.retention.ms",
        "How long a compacted topic keeps the tombstones of deleted keys, so that a consumer "
        "that reads from the beginning sees them.",
    ),
    ConfigKey(
        "file.delete.delay.ms",
        long(0),
        "60000",
        "log.segment.delete.delay.ms",
        "How long the files of removed segments are kept."
        + _UNUSED
        + " Files are removed at once; consumers that still read one keep it open.",
        is_used=False,
    ),
    ConfigKey(
        "flush.messages",
        long(1),
        str(MAX_LONG),
        "log.flush.interval.messages",
        "Flush to disk after this many messages. Messages become visible to consumers when they "
        "are flushed. acks=all waits for a flush in any case.",
    ),
    ConfigKey(
        "flush.ms",
        long(0),
        "100",
        "log.flush.interval.ms",
        "Flush to disk at most this long after a message was appended. Messages become visible "
        "to consumers when they are flushed, so this bounds how long those of acks=0 and acks=1 "
        "stay unseen. (Kafka's default is never.)",
    ),
    ConfigKey(
        FOLLOWER_REPLICAS,
        throttled_replicas(),
        "",
        "",
        "Replicas whose copying is throttled while they are not in sync, as partition:broker or "
        "'*' for all: follower.replication.throttled.rate is the broker's rate for all of them.",
    ),
    ConfigKey(
        "index.interval.bytes",
        integer(0),
        "4096",
        "log.index.interval.bytes",
        "An entry is added to the offset index after about this many bytes of log.",
    ),
    ConfigKey(
        LEADER_REPLICAS,
        throttled_replicas(),
        "",
        "",
        "Replicas whose sending is throttled to replicas that are not in sync, as "
        "partition:broker or '*' for all: leader.replication.throttled.rate is the broker's rate "
        "for all of them.",
    ),
    *(
        ConfigKey(
            f"local.retention.{unit}",
            long(-2),
            "-2",
            f"log.local.retention.{unit}",
            "How much Kafka keeps locally of a log in remote storage." + _UNUSED,
            is_used=False,
        )
        for unit in ("bytes", "ms")
    ),
    ConfigKey(
        "max.compaction.lag.ms",
        long(1),
        str(MAX_LONG),
        "log.cleaner.max.compaction.lag.ms",
        "The longest time before a record of a compacted topic may be compacted.",
    ),
    ConfigKey(
        "max.message.bytes",
        integer(0),
        "1048588",
        "message.max.bytes",
        "The largest record batch, after compression, that is accepted.",
    ),
    ConfigKey(
        "message.downconversion.enable",
        boolean(),
        "true",
        "log.message.downconversion.enable",
        "Whether batches are converted for clients of old formats." + _UNUSED,
        is_used=False,
    ),
    ConfigKey(
        "message.format.version",
        release_of_kafka(),
        "3.0-IV1",
        "log.message.format.version",
        "Batches are of record format 2, whatever this says." + _UNUSED,
        is_used=False,
    ),
    ConfigKey(
        "message.timestamp.after.max.ms",
        long(0),
        str(MAX_LONG),
        "log.message.timestamp.after.max.ms",
        "A batch is rejected if its greatest timestamp is further than this ahead of the "
        "broker's clock. Retention does not use timestamps, but the time of append.",
    ),
    ConfigKey(
        "message.timestamp.before.max.ms",
        long(0),
        str(MAX_LONG),
        "log.message.timestamp.before.max.ms",
        "A batch is rejected if its greatest timestamp is further than this behind the broker's "
        "clock.",
    ),
    ConfigKey(
        "message.timestamp.difference.max.ms",
        long(0),
        str(MAX_LONG),
        "log.message.timestamp.difference.max.ms",
        "The older name for message.timestamp.before.max.ms and message.timestamp.after.max.ms "
        "together: applies to those that are left at their defaults.",
    ),
    ConfigKey(
        "message.timestamp.type",
        one_of("CreateTime", "LogAppendTime"),
        "CreateTime",
        "log.message.timestamp.type",
        "CreateTime: a record keeps the time that its producer gave it. LogAppendTime: its batch "
        "gets the time at which the broker appended it.",
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        fraction(),
        "0.5",
        "log.cleaner.min.cleanable.ratio",
        "A log is compacted when at least this part of it was written since the last compaction.",
    ),
    ConfigKey(
        "min.compaction.lag.ms",
        long(0),
        "0",
        "log.cleaner.min.compaction.lag.ms",
        "The shortest time before a record of a compacted topic may be compacted.",
    ),
    ConfigKey(
        "min.insync.replicas",
        integer(1),
        "1",
        "min.insync.replicas",
        "acks=all is rejected while fewer replicas than this are in sync. For a topic with three "
        "replicas or more, the default is 2: what was acknowledged is then on at least two "
        "brokers, and one of three may be down. (Kafka's default is always 1.)",
    ),
    ConfigKey(
        ACCEPT_GAP,
        gaps(),
        "",
        "",
        "For a copy: gaps in the offsets that are accepted although its source is not compacted, "
        "as partition:from-to: the log's end, and the offset of the next batch. Penstock's own: "
        "set and removed by `penstock mirror --accept-gap`.",
    ),
    ConfigKey(
        CUT,
        cuts(),
        "",
        "",
        "What is cut off from the ends of partitions, as topic-id/partition:from-to@epoch: the "
        "offsets in between, if written under leader epochs up to that one. Penstock's own: "
        "`penstock mirror demote --cut` sets it, after it has shown what that is.",
    ),
    ConfigKey(
        MIRROR_OF,
        mark_of_copy(),
        "",
        "",
        "Makes the topic a copy of another cluster's, as cluster/topic/topic-id: it has the "
        "source's offsets, and only the mirror may write to it. Empty for an ordinary topic. "
        "Penstock's own: `penstock mirror` sets it, and `penstock mirror promote` removes it.",
    ),
    ConfigKey(
        PAUSED,
        boolean(),
        "false",
        "",
        "For a copy: the mirror does not write to it. Penstock's own: `penstock mirror pause` "
        "sets it, and `penstock mirror resume` removes it.",
    ),
    ConfigKey(
        "preallocate",
        boolean(),
        "false",
        "log.preallocate",
        "Whether segment files are allocated in full when they are created." + _UNUSED,
        is_used=False,
    ),
    *(
        ConfigKey(
            f"remote.log.{name}",
            boolean(),
            "false",
            "",
            "For logs that Kafka keeps in remote storage." + _UNUSED,
            is_used=False,
        )
        for name in ("copy.disable", "delete.on.disable")
    ),
    ConfigKey(
        "remote.storage.enable",
        never("Penstock has no remote storage"),
        "false",
        "",
        "Always false: a log is stored on its brokers only.",
    ),
    ConfigKey(
        "retention.bytes",
        long(-1),
        "-1",
        "log.retention.bytes",
        "The oldest segments of a partition are removed while it is larger than this; -1 for no "
        "limit. It applies to each partition.",
    ),
    ConfigKey(
        "retention.ms",
        long(-1),
        "604800000",
        "log.retention.ms",
        "Segments are removed this long after the last append to them; -1 for no limit. Unlike "
        "in Kafka, the time of append counts, not the records' timestamps: old data that is "
        "shipped late is kept as long as any other, and a record dated in the future does not "
        "keep its segment.",
    ),
    ConfigKey(
        "segment.bytes",
        integer(14),
        "1073741824",
        "log.segment.bytes",
        "The size at which a new segment file is begun.",
    ),
    ConfigKey(
        "segment.index.bytes",
        integer(12),
        "10485760",
        "log.index.size.max.bytes",
        "The size of an offset index at which a new segment is begun.",
    ),
    ConfigKey(
        "segment.jitter.ms",
        long(0),
        "0",
        "log.roll.jitter.ms",
        "The most by which segment.ms is shortened at random, so that segments do not roll all "
        "at once." + _UNUSED,
        is_used=False,
    ),
    ConfigKey(
        "segment.ms",
        long(1),
        "604800000",
        "log.roll.ms",
        "The age at which a new segment is begun even if the last is not full.",
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        boolean(),
        "false",
        "unclean.leader.election.enable",
        "Whether a replica that is not in sync may become leader if no in-sync one is alive. "
        "What it does not have is lost.",
    ),
)

TOPIC_CONFIG_KEYS: dict[str, ConfigKey] = {key.name: key for key in _KEYS}


def is_known(name: str) -> bool:
    return name in TOPIC_CONFIG_KEYS or _CONFLUENTS.fullmatch(name) is not None


def topic_config_key(name: str) -> ConfigKey:
    key = TOPIC_CONFIG_KEYS.get(name)
    if key is None and _CONFLUENTS.fullmatch(name):
        documentation = (
            "One of Confluent's configs, with a value that switches nothing on." + _UNUSED
        )
        return ConfigKey(name, left_off(), "", "", documentation, is_used=False)
    if key is None:
        similar_names = get_close_matches(name[:100], TOPIC_CONFIG_KEYS, n=1)
        hint = f" (did you mean {similar_names[0]}?)" if similar_names else ""
        raise ApiError(ErrorCode.invalid_config, f"Unknown topic config name: {name[:100]}{hint}")
    return key
