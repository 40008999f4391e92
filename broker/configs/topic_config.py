"""The configs of one topic: its overrides, on top of the defaults in the broker's file.

Text from clients is checked here before it reaches the shared map: an unknown name, a value out of
bounds or a contradiction is an `ApiError`. What is in the map may have been written by another
release or by hand, and a broker has to live with it: `salvage` reads what can be read.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from broker.configs.config_values import ALL_REPLICAS, MAX_LONG, Value, gap, replica
from broker.configs.topic_config_table import TOPIC_CONFIG_KEYS, ConfigKey, topic_config_key
from broker.errors import ApiError, ErrorCode
from broker.storage.config import LogConfig
from wire.messages.describe_configs import ConfigType
from wire.messages.incremental_alter_configs import ConfigOperation
from wire.mirrored import ACCEPT_GAP, CUT, MIRROR_OF, MirrorCut, MirrorOf

NOTHING: Mapping[str, str] = MappingProxyType({})

MIN_IN_SYNC: Final = "min.insync.replicas"
_MOST_FOREIGN: Final = 50
_MANY_REPLICAS: Final = 3  # with as many, one may be missing and acks=all still mean two


class TopicDefaults(msgspec.Struct, frozen=True):
    """The `topic_defaults` of a broker's file, for topics without overrides."""

    partitions: int = 1
    replication_factor: int = 1
    configs: Mapping[str, str] = msgspec.field(default_factory=lambda: NOTHING)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "TopicDefaults":
        """Parses settings. Raises `ValueError` or `ApiError`, with a message that names the key."""
        configs = {key: _text(value) for key, value in settings.items() if key not in _SHAPE}
        TopicConfig.parse(configs)
        for key in (MIRROR_OF, ACCEPT_GAP, CUT):
            if key in configs:
                raise ValueError(f"`{key}` can be set for single topics only, not as a default")
        return cls(
            partitions=_count(settings, "partitions"),
            replication_factor=_count(settings, "replication_factor"),
            configs=MappingProxyType(configs),
        )

    def for_replicas(self, count: int) -> Mapping[str, str]:
        """Returns the configs of a topic with this replication factor and no overrides."""
        if MIN_IN_SYNC in self.configs or count < _MANY_REPLICAS:
            return self.configs
        return {**self.configs, MIN_IN_SYNC: built_in(topic_config_key(MIN_IN_SYNC), count)}


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All configs of one topic, parsed. Configs that every append reads have fields of their
    own."""

    overrides: Mapping[str, str]
    values: Mapping[str, Value]
    max_message_bytes: int
    min_insync_replicas: int
    timestamp_before_max_ms: int  # how far a batch's timestamp may lie behind the broker's clock
    timestamp_after_max_ms: int  # how far ahead of it
    stamps_append_time: bool
    compacts: bool
    mirror_of: MirrorOf | None  # the topic that it is a copy of

    @classmethod
    def parse(
        cls, overrides: Mapping[str, str], defaults: Mapping[str, str] = NOTHING
    ) -> "TopicConfig":
        """Parses overrides from a client. Raises ApiError."""
        canonical_overrides = {
            name: topic_config_key(name).canonical(text) for name, text in overrides.items()
        }
        texts = {**defaults, **canonical_overrides}
        foreign_names = [name for name in texts if name not in TOPIC_CONFIG_KEYS]
        if len(foreign_names) > _MOST_FOREIGN:
            reason = f"{len(foreign_names)} foreign configs, at most {_MOST_FOREIGN} are allowed"
            raise ApiError(ErrorCode.invalid_config, reason)
        values = {
            name: key.read(texts.get(name, key.default)) for name, key in TOPIC_CONFIG_KEYS.items()
        } | {name: topic_config_key(name).read(texts[name]) for name in foreign_names}
        _check_together(values)
        return cls(
            overrides=MappingProxyType(canonical_overrides),
            values=MappingProxyType(values),
            max_message_bytes=_number(values, "max.message.bytes"),
            min_insync_replicas=_number(values, MIN_IN_SYNC),
            timestamp_before_max_ms=_timestamp_bound(values, "message.timestamp.before.max.ms"),
            timestamp_after_max_ms=_timestamp_bound(values, "message.timestamp.after.max.ms"),
            stamps_append_time=values["message.timestamp.type"] == "LogAppendTime",
            compacts="compact" in cast(tuple[str, ...], values["cleanup.policy"]),
            mirror_of=MirrorOf.parse(mirror_text)
            if (mirror_text := str(values[MIRROR_OF]))
            else None,
        )

    @classmethod
    def salvage(
        cls, overrides: Mapping[str, str], defaults: Mapping[str, str] = NOTHING
    ) -> tuple["TopicConfig", list[str]]:
        """Parses overrides from the map, and ignores invalid ones; also returns a description of
        each ignored one."""
        valid_overrides: dict[str, str] = {}
        problems: list[str] = []
        for name, text in overrides.items():
            try:
                cls.parse({**valid_overrides, name: text}, defaults)
            except ApiError as error:
                problems.append(error.message)
            else:
                valid_overrides[name] = text
        return cls.parse(valid_overrides, defaults), problems

    @property
    def unused(self) -> dict[str, str]:
        """The overrides that have no effect in Penstock, and differ from the default."""
        keys = {name: topic_config_key(name) for name in self.overrides}
        return {
            name: self.overrides[name]
            for name, key in keys.items()
            if not key.is_used and self.overrides[name] != key.default
        }

    def number(self, name: str) -> int:
        return _number(self.values, name)

    def log_config(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.number("segment.bytes"),
            segment_ms=self.number("segment.ms"),
            index_interval_bytes=self.number("index.interval.bytes"),
            segment_index_bytes=self.number("segment.index.bytes"),
            retention_ms=self.number("retention.ms"),
            retention_bytes=self.number("retention.bytes"),
            delete=self.deletes,
            compact=self.compacts,
            delete_retention_ms=self.number("delete.retention.ms"),
            min_cleanable_dirty_ratio=cast(float, self.values["min.cleanable.dirty.ratio"]),
            min_compaction_lag_ms=self.number("min.compaction.lag.ms"),
            max_compaction_lag_ms=self.number("max.compaction.lag.ms"),
        )

    def throttles(self, name: str, partition: int, broker_id: int) -> bool:
        throttled_replicas = cast(tuple[str, ...], self.values[name])
        return (
            ALL_REPLICAS in throttled_replicas
            or replica(partition, broker_id) in throttled_replicas
        )

    def accepts_gap(self, partition: int, end_offset: int, base_offset: int) -> bool:
        """Returns whether a copy that ends at `end_offset` may continue at `base_offset`."""
        gap_words = cast(tuple[str, ...], self.values[ACCEPT_GAP])
        return (partition, end_offset, base_offset) in map(gap, gap_words)

    def cut_of(self, topic_id: str, partition: int) -> MirrorCut | None:
        """Returns the cut that an operator has ordered at the end of a partition's log; None if
        there is none."""
        prefix = f"{topic_id}/{partition}:"
        for word in cast(tuple[str, ...], self.values[CUT]):
            if word.startswith(prefix):
                return MirrorCut.parse(word)
        return None

    @property
    def deletes(self) -> bool:
        return "delete" in cast(tuple[str, ...], self.values["cleanup.policy"])


class ConfigChange(msgspec.Struct, frozen=True):
    """One step of an incremental change; `value` is None only for DELETE."""

    name: str
    operation: ConfigOperation
    value: str | None = None


def changed(
    overrides: Mapping[str, str],
    changes: Iterable[ConfigChange],
    defaults: Mapping[str, str] = NOTHING,
    key_of: Callable[[str], ConfigKey] = topic_config_key,
) -> dict[str, str]:
    """Returns `overrides` after `changes`. As in Kafka, changes to an unset list start from its
    default."""
    result = dict(overrides)
    for change in changes:
        name = change.name
        if change.operation is ConfigOperation.DELETE:
            # An unknown name can be removed, too: another release may have written it.
            result.pop(name, None)
            continue
        key = key_of(name)
        if change.value is None:
            raise ApiError(ErrorCode.invalid_request, f"Null value not supported for {name}")
        if change.operation is ConfigOperation.SET:
            result[name] = change.value
            continue
        if key.type.kind is not ConfigType.LIST:
            raise ApiError(
                ErrorCode.invalid_request,
                f"{change.operation.name.lower()} requires a list, and {name} is not one",
            )
        old_words = result.get(name, defaults.get(name, key.default)).split(",")
        words = change.value.split(",")
        if change.operation is ConfigOperation.APPEND:
            result[name] = ",".join(old_words + words)
        else:
            removed_words = {word.strip() for word in words}
            result[name] = ",".join(word for word in old_words if word.strip() not in removed_words)
    return result


def built_in(key: ConfigKey, replicas: int) -> str:
    """Returns the value without any override or broker default."""
    return "2" if key.name == MIN_IN_SYNC and replicas >= _MANY_REPLICAS else key.default


def is_on(name: str, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> bool:
    """Whether a boolean config of a topic is true; an unreadable value counts as false."""
    text = overrides.get(name, defaults.get(name, topic_config_key(name).default))
    return text.strip().lower() == "true"


_SHAPE = ("partitions", "replication_factor")


def _count(settings: Mapping[str, Any], key: str) -> int:
    value = settings.get(key, 1)
    if type(value) is not int or not 1 <= value < 2**15:
        raise ValueError(f"`{key}` must be a whole number of at least 1, not {value!r}")
    return value


def _text(value: object) -> str:
    """YAML reads numbers and booleans by itself; Kafka's configs are texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(str(word) for word in value)
    return str(value)


def _number(values: Mapping[str, Value], name: str) -> int:
    return cast(int, values[name])


def _timestamp_bound(values: Mapping[str, Value], name: str) -> int:
    """The newer config if it is set, otherwise the older one, which covers both directions."""
    bound = _number(values, name)
    if bound == MAX_LONG:
        return _number(values, "message.timestamp.difference.max.ms")
    return bound


def _check_together(values: Mapping[str, Value]) -> None:
    min_lag = _number(values, "min.compaction.lag.ms")
    max_lag = _number(values, "max.compaction.lag.ms")
    if min_lag > max_lag:
        raise ApiError(
            ErrorCode.invalid_config,
            f"min.compaction.lag.ms ({min_lag}) is greater than max.compaction.lag.ms ({max_lag})",
        )
