"""`penstock check-config mirror`: shows the topics that would be copied, and the changes at the
target.

Asks the brokers of both clusters, and changes nothing.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from client.errors import ClientError
from mirror.clusters.scanner import ClusterScanner, Scan
from mirror.config import MirrorConfig
from mirror.errors import NoTarget
from mirror.topics import Alter, Change, Create, Enlarge, Standing, TopicCopy
from penstock.connections.reachability import (
    SECONDS,
    broker_problem,
    registry_problem,
    zookeeper_problem,
)
from penstock.services.checks.findings import print_section
from penstock.services.checks.locks_check import broken_locks

_COLUMNS: Final = ("topic", "copy", "standing", "would_be")
_MOST_SHOWN: Final = 50


class TopicCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of the source, or the remaining copy of a deleted one."""

    topic: str
    copy: str
    standing: str
    would_be: tuple[str, ...] = ()  # what would be done at the target


class MirrorCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The report. `topics` is empty if no broker answered."""

    topics: tuple[TopicCheck, ...] = ()
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def all_problems(self) -> list[str]:
        return [*self.problems]

    def all_remarks(self) -> list[str]:
        return [*self.remarks]


def check_mirror(config: MirrorConfig, *, offline: bool) -> MirrorCheck:
    """Checks the configuration and, unless `offline`, both clusters and the target's registry."""
    problems = [*broken_locks(config)]
    remarks = [*_remarks(config)]
    topics: tuple[TopicCheck, ...] = ()
    silent_servers = [] if offline else [*_unanswered(config)]
    problems += silent_servers
    if not (offline or silent_servers):
        scanner = ClusterScanner(config, SECONDS)
        try:
            scan = scanner.planned()
        except (NoTarget, ClientError) as error:
            problems.append(str(error))
        else:
            topics = tuple(_topic(copy) for copy in scan.copies.values())
            problems += _problems(scan)
            if not topics:
                remarks.append(f"{config.source.cluster} has no topic that would be copied")
        finally:
            scanner.close()
    return MirrorCheck(topics=topics, problems=tuple(problems), remarks=tuple(remarks))


def _unanswered(config: MirrorConfig) -> Iterator[str]:
    for cluster in (config.source, config.target):
        if problem := broker_problem(cluster.bootstrap):
            yield f"topics of {cluster.cluster} were not checked: {problem}"
    if config.target.registry and (problem := registry_problem(config.target.registry_address)):
        yield problem
    if config.target.zookeeper and (problem := zookeeper_problem(config.target.zookeeper)):
        yield problem


def _remarks(config: MirrorConfig) -> Iterator[str]:
    if config.insecure:
        yield "insecure: its pages accept remote clients without a login"
    if not config.target.zookeeper:
        yield "no `target.zookeeper`: only one worker can run, and no other takes over"


def _problems(scan: Scan) -> Iterator[str]:
    for copy in scan.copies.values():
        if copy.standing in {Standing.FOREIGN, Standing.RECREATED}:
            yield f"{copy.here} would not be copied: {copy.reason}"
    for name, problem in scan.troubles.items():
        yield f"{name}: {problem}"


def _topic(copy: TopicCopy) -> TopicCheck:
    change_words = tuple(map(_change_words, copy.changes))
    return TopicCheck(
        topic=copy.there, copy=copy.here, standing=copy.standing.value, would_be=change_words
    )


def _change_words(change: Change) -> str:
    match change:
        case Create(_, partitions, _):
            return f"created with {partitions} partitions"
        case Enlarge(_, partitions):
            return f"enlarged to {partitions} partitions"
        case Alter(_, configs):
            return f"altered: {', '.join(sorted(configs))}"


def show_report(report: MirrorCheck) -> None:
    """Prints the topics."""
    rows = [
        {
            "topic": topic.topic,
            "copy": topic.copy,
            "standing": topic.standing,
            "would_be": "; ".join(topic.would_be) or None,
        }
        for topic in report.topics[:_MOST_SHOWN]
    ]
    print_section(_COLUMNS, rows)
    if len(report.topics) > _MOST_SHOWN:
        print(f"and {len(report.topics) - _MOST_SHOWN} more topics: --json shows all")
