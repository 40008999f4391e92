"""Reads the originals of topics that are mirrored copies from the topics' configs. The ledger names
a copy's original along with the offsets."""

from collections.abc import Collection

from client.admin.topics import configs_of_topics
from client.connection.brokers import Brokers
from client.errors import Refused, Unsupported
from wire.mirrored import MIRROR_OF, MirrorOf


def origins_of(brokers: Brokers, topics: Collection[str]) -> dict[str, str]:
    """The originals of those topics that are copies and whose configs are readable."""
    try:
        configs_by_topic, _ = configs_of_topics(brokers, topics)
    except (Refused, Unsupported):
        return {}
    marks = {
        topic: config.value
        for topic, configs in configs_by_topic.items()
        for config in configs
        if config.name == MIRROR_OF and config.value
    }
    return {topic: origin for topic, origin in marks.items() if _is_valid(origin)}


def _is_valid(mark: str) -> bool:
    try:
        MirrorOf.parse(mark)
    except ValueError:
        return False
    return True
