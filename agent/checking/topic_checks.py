"""Whether topics are configured as an agent needs them, on Apache Kafka as on Penstock.

A batch must stay byte for byte what the agent sent, and an event must keep its own time: otherwise
the audit counts in vain. What is only worth knowing is a remark.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from agent.config import AgentConfig
from agent.config_inputs import Input
from client.admin import topic_configs
from client.brokers import Brokers
from client.new_topics import NewTopics, new_topics
from ledger.names import DEAD_SUFFIX, LEDGER_TOPIC

_DAY_MILLIS = 86_400_000


class TopicCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One topic; `partitions` is 0 while it does not exist."""

    name: str
    partitions: int = 0
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def topics_of(inputs: Sequence[Input], *, ledger: bool) -> list[str]:
    """All topics that these inputs write to."""
    topics = [each.topic for each in inputs]
    dead = [topic + DEAD_SUFFIX for topic in topics]
    return list(dict.fromkeys([*topics, *dead, *([LEDGER_TOPIC] if ledger else [])]))


def check_topics(brokers: Brokers, config: AgentConfig, topics: Sequence[str]) -> list[TopicCheck]:
    """Raises ClientError if the cluster does not answer."""
    known = brokers.persist(lambda: brokers.refresh(topics))
    made = None if all(known.has(name) for name in topics) else new_topics(brokers)
    checks = []
    for name in topics:
        if not known.has(name):
            checks.append(check_missing(name, made, config))
            continue
        configs = {each.name: each.value or "" for each in topic_configs(brokers, name)}
        checks.append(
            TopicCheck(
                name=name,
                partitions=len(known.topic(name).partitions),
                problems=tuple(problems_of(configs)),
                remarks=tuple(remarks_on(name, configs, config)),
            )
        )
    return checks


def check_missing(name: str, made: NewTopics | None, config: AgentConfig) -> TopicCheck:
    """A topic that is not there, by what brokers say of those that they make."""
    missing = "it does not exist yet"
    if made is None:
        so = f"{missing}: create it, or let the brokers do so at first use"
        return TopicCheck(name=name, remarks=(so,))
    if made.at_first_use:
        so = f"{missing}: brokers make it at first use, with num.partitions={made.partitions}"
        return TopicCheck(
            name=name,
            problems=tuple(problems_of(made.configs)),
            remarks=(so, *remarks_on(name, made.configs, config)),
        )
    command = f"auto.create.topics.enable is false: penstock topics create {name}"
    if name.endswith(DEAD_SUFFIX):
        so = f"{missing}, and the first dead letter would wait for it, as {command}"
        return TopicCheck(name=name, remarks=(so,))
    return TopicCheck(name=name, problems=(f"{missing}, and {command}",))


def problems_of(configs: Mapping[str, str]) -> Iterator[str]:
    packing = configs.get("compression.type", "producer")
    if packing != "producer":
        yield (
            f"compression.type is {packing}: brokers would pack batches anew, and their checksums "
            "would not be the ledger's; set it to producer"
        )
    stamped = configs.get("message.timestamp.type", "CreateTime")
    if stamped != "CreateTime":
        yield f"message.timestamp.type is {stamped}: events would lose their time; set CreateTime"
    if "compact" in configs.get("cleanup.policy", ""):
        yield "cleanup.policy has compact: events have no keys, and would be refused; set delete"


def remarks_on(name: str, configs: Mapping[str, str], config: AgentConfig) -> Iterator[str]:
    largest = _number(configs, "max.message.bytes")
    if 0 <= largest < config.batches.bytes:
        yield f"max.message.bytes is {largest:,}: batches are no larger, whatever `batches` says"
    if name == LEDGER_TOPIC:  # its entries are of the time at which they are written
        return
    oldest = config.times.oldest * 1000
    kept = _number(configs, "retention.ms")
    if 0 <= kept < oldest:
        yield (
            f"retention.ms is {_days(kept)}: on Apache Kafka, which goes by the events' times, "
            "older ones are deleted soon after they arrive"
        )
    for bounded, bound in (
        ("message.timestamp.difference.max.ms", oldest),
        ("message.timestamp.before.max.ms", oldest),
        ("message.timestamp.after.max.ms", config.times.newest * 1000),
    ):
        allowed = _number(configs, bounded)
        if 0 <= allowed < bound:
            yield f"{bounded} is {_days(allowed)}: times beyond it are put on that bound"


def _number(configs: Mapping[str, str], name: str) -> int:
    """-1 where there is none, or no bound."""
    text = configs.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else -1


def _days(millis: int) -> str:
    if millis % _DAY_MILLIS == 0:
        return f"{millis // _DAY_MILLIS} days"
    return f"{millis:,} ms"
