"""A cluster's defaults for new topics: whether first use creates them, and their configs.

Brokers name these defaults differently (`log.retention.hours`). They are returned under the names
of topic configs, so that a topic that does not exist yet can be checked like one that does. One
broker is asked for all.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from client.admin.topics import broker_configs
from client.connection.brokers import Brokers
from client.errors import Refused, Unsupported

_NAMES: Final = MappingProxyType(
    {
        "compression.type": "compression.type",
        "log.cleanup.policy": "cleanup.policy",
        "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
        "log.message.timestamp.difference.max.ms": "message.timestamp.difference.max.ms",
        "log.message.timestamp.type": "message.timestamp.type",
        "message.max.bytes": "max.message.bytes",
    }
)
# The first one that is set applies.
_RETENTION: Final = MappingProxyType(
    {
        "log.retention.ms": 1,
        "log.retention.minutes": 60_000,
        "log.retention.hours": 3_600_000,
    }
)


class NewTopics(NamedTuple):
    """A cluster's defaults for new topics. `at_first_use`: brokers create a topic when a client
    first asks for it."""

    at_first_use: bool
    partitions: str  # as in the broker's config
    configs: Mapping[str, str]  # by topic config name


def new_topics(brokers: Brokers) -> NewTopics | None:
    """Reads the defaults; None if brokers do not disclose them. Raises ClientError if none
    answers."""
    metadata = brokers.persist(lambda: brokers.refresh([]))
    if not metadata.brokers:
        return None
    try:
        configs = broker_configs(brokers, min(metadata.brokers))
    except (Refused, Unsupported):
        return None
    return from_broker_configs({config.name: config.value or "" for config in configs})


def from_broker_configs(defaults: Mapping[str, str]) -> NewTopics:
    configs = {key: defaults[name] for name, key in _NAMES.items() if defaults.get(name)}
    for name, factor in _RETENTION.items():
        if (text := defaults.get(name, "")).removeprefix("-").isdecimal():
            configs["retention.ms"] = str(max(-1, int(text) * factor))
            break
    return NewTopics(
        at_first_use=defaults.get("auto.create.topics.enable") == "true",
        partitions=defaults.get("num.partitions", ""),
        configs=MappingProxyType(configs),
    )
