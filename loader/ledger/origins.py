"""Which topics are copies of which, as brokers say: the ledger names it beside the offsets."""

from collections.abc import Collection

from client.admin import configs_of_topics
from client.brokers import Brokers
from client.errors import Refused, Unsupported
from wire.mirrored import MIRROR_OF, MirrorOf


def origins_of(brokers: Brokers, topics: Collection[str]) -> dict[str, str]:
    """Of those of these topics that are copies, and show their configs, as these have it."""
    try:
        found, _ = configs_of_topics(brokers, topics)
    except (Refused, Unsupported):
        return {}
    marks = {
        topic: each.value
        for topic, configs in found.items()
        for each in configs
        if each.name == MIRROR_OF and each.value
    }
    return {topic: mark for topic, mark in marks.items() if _is_read(mark)}


def _is_read(mark: str) -> bool:
    try:
        MirrorOf.parse(mark)
    except ValueError:
        return False
    return True
