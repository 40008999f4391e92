"""The configs of a broker and of its topics, in the form of DescribeConfigs.

Each value has its source and, on request, its synonyms: the places where it could be set, in order
of precedence. A topic's config is set for the topic (TOPIC_CONFIG), or in the broker's file under
`topic_defaults` (STATIC_BROKER_CONFIG, under the name that Kafka's brokers use), or nowhere
(DEFAULT_CONFIG).

A broker's own configs have Kafka's names, since Kafka's tools read them. All are read-only except
those that can be set while it runs, for itself (DYNAMIC_BROKER_CONFIG) or for all brokers
(DYNAMIC_DEFAULT_BROKER_CONFIG).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from broker.configs.config import BrokerConfig
from broker.configs.config_values import text_of
from broker.configs.dynamic_configs import DYNAMIC_KEYS
from broker.configs.own_configs import OWN_CONFIGS, BrokerSettings, OwnConfig
from broker.configs.topic_config import NOTHING, TopicConfig, TopicDefaults, built_in
from broker.configs.topic_config_table import TOPIC_CONFIG_KEYS, ConfigKey, topic_config_key
from wire.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)


def topic_entries(
    config: TopicConfig, defaults: TopicDefaults, replicas: int
) -> tuple[DescribeConfigsResourceResult, ...]:
    """Returns all configs of a topic with this replication factor, with synonyms and
    documentation."""
    return tuple(
        _entry(
            key.name,
            text_of(config.values[key.name]),
            key.type.kind,
            key.documentation,
            _topic_synonyms(key, config, defaults, replicas),
        )
        for key in map(topic_config_key, config.values)
    )


def broker_entries(
    config: BrokerConfig,
    defaults: TopicDefaults,
    own: Mapping[str, str] = NOTHING,
    shared: Mapping[str, str] = NOTHING,
    *,
    listener: str,
    advertised: str,
) -> tuple[DescribeConfigsResourceResult, ...]:
    """Returns all configs of one broker, with its listening and advertised addresses. `own` and
    `shared` are its dynamic configs: those for this broker, and those for all brokers."""
    settings = BrokerSettings(config, defaults, listener, advertised)
    entries = [_own_entry(key, key.value(settings)) for key in OWN_CONFIGS]
    for key in TOPIC_CONFIG_KEYS.values():
        if key.broker_name:
            synonyms = _broker_synonyms(key, defaults, defaults.replication_factor)
            entries.append(
                _entry(
                    key.broker_name,
                    synonyms[0].value,
                    key.type.kind,
                    f"The default of {key.name} for topics. {key.documentation}",
                    synonyms,
                    read_only=True,
                )
            )
    entries += [_dynamic(key, own, shared) for key in DYNAMIC_KEYS.values()]
    return tuple(sorted(entries, key=lambda entry: entry.name))


def shared_entries(shared: Mapping[str, str]) -> tuple[DescribeConfigsResourceResult, ...]:
    return tuple(
        _dynamic(key, NOTHING, shared) for name, key in DYNAMIC_KEYS.items() if name in shared
    )


def _dynamic(
    key: ConfigKey, own: Mapping[str, str], shared: Mapping[str, str]
) -> DescribeConfigsResourceResult:
    synonyms = tuple(
        DescribeConfigsSynonym(name=key.name, value=overrides[key.name], source=source)
        for overrides, source in (
            (own, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (shared, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            ({key.name: key.default}, ConfigSource.DEFAULT_CONFIG),
        )
        if key.name in overrides
    )
    return _entry(key.name, synonyms[0].value, key.type.kind, key.documentation, synonyms)


def without(
    entry: DescribeConfigsResourceResult, *, synonyms: bool, documentation: bool
) -> DescribeConfigsResourceResult:
    """Returns `entry` without the fields that were not requested."""
    return replace(
        entry,
        synonyms=entry.synonyms if synonyms else (),
        documentation=entry.documentation if documentation else None,
    )


def _entry(
    name: str,
    value: str | None,
    kind: ConfigType,
    documentation: str,
    synonyms: tuple[DescribeConfigsSynonym, ...],
    *,
    read_only: bool = False,
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        synonyms=synonyms,
        config_type=kind,
        documentation=documentation,
    )


def _own_entry(key: OwnConfig, value: str | None) -> DescribeConfigsResourceResult:
    synonym = DescribeConfigsSynonym(name=key.name, value=value, source=key.source)
    return _entry(key.name, value, key.type, key.documentation, (synonym,), read_only=True)


def _topic_synonyms(
    key: ConfigKey, config: TopicConfig, defaults: TopicDefaults, replicas: int
) -> tuple[DescribeConfigsSynonym, ...]:
    default_synonyms = _broker_synonyms(key, defaults, replicas) if key.broker_name else ()
    if key.name not in config.overrides:
        return default_synonyms
    own_synonym = DescribeConfigsSynonym(
        name=key.name, value=config.overrides[key.name], source=ConfigSource.TOPIC_CONFIG
    )
    return (own_synonym, *default_synonyms)


def _broker_synonyms(
    key: ConfigKey, defaults: TopicDefaults, replicas: int
) -> tuple[DescribeConfigsSynonym, ...]:
    unset_synonym = DescribeConfigsSynonym(
        name=key.broker_name,
        value=built_in(key, replicas),
        source=ConfigSource.DEFAULT_CONFIG,
    )
    if key.name not in defaults.configs:
        return (unset_synonym,)
    static_synonym = DescribeConfigsSynonym(
        name=key.broker_name,
        value=key.canonical(defaults.configs[key.name]),
        source=ConfigSource.STATIC_BROKER_CONFIG,
    )
    return (static_synonym, unset_synonym)
