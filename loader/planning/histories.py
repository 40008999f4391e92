"""Asking the cluster whether logs are those that were read: one batch of each partition in which
something is new, and of one that is another log, as many as it takes to find where they part.

What to ask for and what follows is decided in same_log.py.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from client.admin import topic_configs
from client.batches_at import batches_at
from client.brokers import Brokers
from client.delivery import TopicPartition
from client.errors import Refused, Unsupported
from loader.manifests import PartitionState, TopicState
from loader.planning.facts import Parted, PartitionFacts, TopicFacts
from loader.planning.same_log import (
    asked_offset,
    candidates,
    described,
    is_another,
    is_batch,
    is_same,
)
from loader.reports import LastBatch

Earlier = Callable[[str, int], Iterable[LastBatch]]  # of a partition, from runs before


def with_partings(
    brokers: Brokers,
    facts: Mapping[str, TopicFacts],
    state: Iterable[TopicState],
    earlier: Earlier,
) -> dict[str, TopicFacts]:
    """The same facts, with which logs are not those that were read."""
    known = {
        TopicPartition(topic.topic, each.partition): each
        for topic in state
        if (there := facts.get(topic.topic)) is not None and not is_another(there, topic)
        for each in topic.partitions
        if each.partition in there.partitions
    }
    parted = _parted(brokers, facts, known)
    if not parted:
        return dict(facts)
    compacted = {name: _is_compacted(brokers, name) for name in {each.topic for each in parted}}
    located = {
        target: _located(brokers, target, _of(facts, target), each, earlier)
        for target, each in parted.items()
        if not compacted[target.topic]
    }
    return {
        name: replace(
            topic,
            partitions={
                index: replace(each, parted=located.get(TopicPartition(name, index)))
                for index, each in topic.partitions.items()
            },
        )
        for name, topic in facts.items()
    }


def _parted(
    brokers: Brokers,
    facts: Mapping[str, TopicFacts],
    known: Mapping[TopicPartition, PartitionState],
) -> dict[TopicPartition, Parted]:
    """Logs that are others, or shorter than they were, and epochs do not say how far the same."""
    asked = {
        target: offset
        for target, state in known.items()
        if (offset := asked_offset(_of(facts, target), state)) is not None
    }
    batches = batches_at(brokers, asked) if asked else {}
    parted = {}
    for target, state in known.items():
        there = _of(facts, target)
        header = batches.get(target)
        cut = there.epoch_end is None or there.epoch_end >= state.next_offset
        if header is not None and not is_same(state, header):
            parted[target] = _apart(state, described(header))
        elif cut and there.end < state.next_offset:
            parted[target] = _apart(state, described(None))
    return parted


def _apart(state: PartitionState, found: str) -> Parted:
    last = state.next_offset - 1
    was = f"one that ends at {last}" if state.last is None else str(state.last)
    return Parted(same_to=-1, was=was, found=found)


def _located(
    brokers: Brokers,
    target: TopicPartition,
    facts: PartitionFacts,
    parted: Parted,
    earlier: Earlier,
) -> Parted:
    """With how far the logs are the same: to the newest batch of an earlier run that is there."""
    for each in candidates(facts, earlier(target.topic, target.partition)):
        header = batches_at(brokers, {target: each.next_offset - 1})[target]
        if header is not None and is_batch(each, header):
            return replace(parted, same_to=each.next_offset)
    return parted


def _is_compacted(brokers: Brokers, topic: str) -> bool:
    """Nothing can be told of what is. Where brokers do not say, it is not."""
    try:
        configs = {each.name: each.value for each in topic_configs(brokers, topic)}
    except (Refused, Unsupported):
        return False
    return "compact" in (configs.get("cleanup.policy") or "")


def _of(facts: Mapping[str, TopicFacts], target: TopicPartition) -> PartitionFacts:
    return facts[target.topic].partitions[target.partition]
