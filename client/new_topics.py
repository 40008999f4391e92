"""How a cluster makes a topic that does not exist: whether at first use, and with which configs.

Brokers have defaults for topics, under names of their own (`log.retention.hours`); here they stand
under the names that a topic's configs have, so that what is asked of a topic can be asked of one
that is yet to be made. One broker speaks for all.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from client.admin import broker_configs
from client.brokers import Brokers
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
# The first that is set counts.
_RETENTION: Final = MappingProxyType(
    {
        "log.retention.ms": 1,
        "log.retention.minutes": 60_000,
        "log.retention.hours": 3_600_000,
    }
)


class NewTopics(NamedTuple):
    """`at_first_use`: brokers make a topic when a client first asks for it."""

    at_first_use: bool
    partitions: str  # as the broker says it
    configs: Mapping[str, str]  # by the names that a topic's have


def new_topics(brokers: Brokers) -> NewTopics | None:
    """None where brokers do not tell, or not us. Raises ClientError if none answers."""
    known = brokers.persist(lambda: brokers.refresh([]))
    if not known.brokers:
        return None
    try:
        found = broker_configs(brokers, min(known.brokers))
    except (Refused, Unsupported):
        return None
    return from_broker_configs({each.name: each.value or "" for each in found})


def from_broker_configs(said: Mapping[str, str]) -> NewTopics:
    configs = {topics: said[name] for name, topics in _NAMES.items() if said.get(name)}
    for name, factor in _RETENTION.items():
        if (text := said.get(name, "")).removeprefix("-").isdecimal():
            configs["retention.ms"] = str(max(-1, int(text) * factor))
            break
    return NewTopics(
        at_first_use=said.get("auto.create.topics.enable") == "true",
        partitions=said.get("num.partitions", ""),
        configs=MappingProxyType(configs),
    )
