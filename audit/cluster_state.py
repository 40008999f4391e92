"""What a cluster says of its brokers and topics, as far as the audit shows it. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from client.metadata import Metadata
from ledger.names import topic_id_text


class BrokerFacts(NamedTuple):
    """One live broker."""

    id: int
    host: str
    address: str
    rack: str
    controller: bool
    partitions: int
    leads: int


class BrokerState(NamedTuple):
    brokers: Sequence[BrokerFacts]
    topic_ids: Mapping[str, str]  # of the topics that there are now


def brokers_of(known: Metadata) -> BrokerState:
    held: Counter[int] = Counter()
    led: Counter[int] = Counter()
    for topic in known.topics.values():
        for partition in topic.partitions:
            held.update(partition.replicas)
            led[partition.leader] += 1
    return BrokerState(
        [
            BrokerFacts(
                each.id,
                each.address.host,
                str(each.address),
                each.rack or "",
                each.id == known.controller,
                held[each.id],
                led[each.id],
            )
            for each in sorted(known.brokers.values(), key=lambda each: each.id)
        ],
        {name: topic_id_text(topic.id) for name, topic in known.topics.items()},
    )
