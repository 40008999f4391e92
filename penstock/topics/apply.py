"""`penstock topics apply`: creates and alters topics as declared in a file.

    topics:
    - name: page_views
      partitions: 8
      replication: 3
      configs: {retention.ms: 86400000, max.message.bytes: null}
    - {name: views_2019, state: absent}

What an entry omits stays as it is, or gets the broker's default; null resets a config to its
default. With --exact, topics and configs that are not in the file are deleted, except for internal
topics, whose names begin with `_`.

Each change is first validated by the brokers, so that nothing is changed if any would be refused.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click
import msgspec

from client.admin import topics as admin
from client.admin.topics import DEFAULT, ConfigEntry, all_topics, configs_of_topics
from client.connection.brokers import Brokers
from client.connection.metadata import TopicMetadata
from client.errors import Refused
from penstock.cli.failures import WrongConfiguration
from penstock.connections.cluster import bootstrap_option, connected
from penstock.declared.plans import (
    Plan,
    State,
    between,
    carry_out,
    check_once,
    declaration_options,
    declared_in,
    refused,
)

_OURS: Final = "_"
_NO_CONFIGS: Final[Mapping[str, str | None]] = MappingProxyType({})


class DeclaredTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    partitions: int | None = None
    replication: int | None = None
    configs: dict[str, str | None] = {}
    state: State = State.PRESENT

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a topic needs a name")
        for key in ("partitions", "replication"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise ValueError(f"{self.name}: `{key}` must be at least 1, not {value}")


class DeclaredTopics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topics: list[DeclaredTopic] = []


class Topics:
    """The topics that a file declares, and those of a cluster."""

    def __init__(self, brokers: Brokers, declared: list[DeclaredTopic], *, exact: bool) -> None:
        self._brokers = brokers
        self._declared = {topic.name: topic for topic in declared}
        self._exact = exact

    def plans(self) -> list[Plan]:
        topics = all_topics(self._brokers).topics
        declared_topics = {name: topics[name] for name in self._declared if name in topics}
        undeclared_names = topics.keys() - self._declared.keys() if self._exact else set()
        undeclared_names = {name for name in undeclared_names if not name.startswith(_OURS)}
        shown_topics = {**declared_topics, **{name: topics[name] for name in undeclared_names}}
        configs, errors = configs_of_topics(self._brokers, shown_topics)
        for reason in errors.values():
            raise reason
        plans = [
            self._plan(topic, _document(topics.get(topic.name), configs.get(topic.name, ())))
            for topic in self._declared.values()
        ]
        return plans + [
            between(name, _document(topics[name], configs[name]), None)
            for name in sorted(undeclared_names)
        ]

    def _plan(self, wanted: DeclaredTopic, before: dict[str, Any] | None) -> Plan:
        name = wanted.name
        if wanted.state is State.ABSENT:
            return between(name, before, None)
        after = {
            "partitions": wanted.partitions or (before or {}).get("partitions"),
            "replication": wanted.replication or (before or {}).get("replication"),
            "configs": self._configs(wanted, (before or {}).get("configs", {})),
        }
        if before is not None:
            if after["partitions"] < before["partitions"]:
                reason = f"partitions cannot be removed from a topic: it has {before['partitions']}"
                return refused(name, before, reason)
            if after["replication"] != before["replication"]:
                replication = before["replication"]
                hint = "`penstock brokers fill` and `drain` move replicas, but do not add any"
                return refused(name, before, f"its replication factor stays {replication}: {hint}")
        plan = between(name, before, after)
        try:
            self.do(plan, only_check=True)
        except Refused as error:
            return refused(name, before, str(error))
        return plan

    def _configs(self, wanted: DeclaredTopic, before: Mapping[str, str]) -> dict[str, str]:
        base_configs = {} if self._exact else before
        configs = {**base_configs, **wanted.configs}
        return {name: value for name, value in sorted(configs.items()) if value is not None}

    def do(self, plan: Plan, *, only_check: bool = False) -> None:
        """Carries out a plan, or only has the brokers validate it."""
        before, after, name = plan.before, plan.after, plan.name
        if after is None:
            admin.delete_topic(self._brokers, name)
        elif before is None:
            create_topic = admin.check_new_topic if only_check else admin.create_topic
            create_topic(
                self._brokers,
                name,
                partitions=after["partitions"] or DEFAULT,
                replication_factor=after["replication"] or DEFAULT,
                configs=after["configs"],
            )
        else:
            if changes := _changes(before["configs"], after["configs"]):
                admin.alter_topic(self._brokers, name, changes, only_check=only_check)
            if after["partitions"] != before["partitions"]:
                add_partitions = admin.check_more_partitions if only_check else admin.add_partitions
                add_partitions(self._brokers, name, after["partitions"])


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    names = sorted(before.keys() | after.keys())
    return {name: after.get(name) for name in names if before.get(name) != after.get(name)}


def _document(
    topic: TopicMetadata | None, configs: tuple[ConfigEntry, ...]
) -> dict[str, Any] | None:
    if topic is None:
        return None
    return {
        "partitions": len(topic.partitions),
        "replication": max((len(partition.replicas) for partition in topic.partitions), default=0),
        "configs": {config.name: config.value for config in configs if not config.is_default},
    }


@click.command()
@declaration_options
@click.option("--exact", is_flag=True, help="Delete topics and configs that are not in the file.")
@bootstrap_option
def command(
    *, declared: Path, dry_run: bool, yes: bool, as_json: bool, exact: bool, bootstrap: str
) -> None:
    """Create and alter topics as declared in FILE.

    If any change would be refused, nothing is changed, and the exit code is 1.

    \b
    Example:
        penstock topics apply topics.yaml --dry-run
        penstock topics apply topics.yaml
    """
    declarations = declared_in(DeclaredTopics, declared).topics
    check_once("topic", (topic.name for topic in declarations))
    if exact and not declarations:
        raise WrongConfiguration("--exact with a file without topics would delete all topics")
    with connected(bootstrap) as brokers:
        topics = Topics(brokers, declarations, exact=exact)
        plans = topics.plans()
        carry_out("topics", plans, topics.do, dry_run=dry_run, yes=yes, as_json=as_json)
