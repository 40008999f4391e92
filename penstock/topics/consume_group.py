"""`penstock consume --group`: one member of a group, which prints and commits messages."""

import sys
import time
from typing import Final

import click

from client.connection.brokers import Brokers
from client.group.consumer import GroupConsumer
from client.reading.offsets import Start
from cluster.errors import Fenced, Unavailable
from penstock.connections.zookeeper import ZooKeeperAt, session_with
from penstock.topics.message_lines import MessageLines
from wire.acls import Operation

_COMMITS_EVERY_S: Final = 1.0


def print_shared(
    lines: MessageLines,
    brokers: Brokers,
    zookeeper: ZooKeeperAt,
    group: str,
    start: Start,
    *,
    count: int | None,
) -> None:
    """Prints messages until Ctrl-C, or until it has printed `count`. The member leaves its group at
    the end."""
    brokers.topic(lines.topic, Operation.READ)

    def commit() -> None:
        """Commits, after all output has been flushed."""
        sys.stdout.flush()
        try:
            consumer.commit()
        except Fenced:
            click.echo(
                "penstock: the session with ZooKeeper has ended: some printed messages will be "
                "printed "
                "again, by the members that have these partitions now",
                err=True,
            )
        except Unavailable as error:
            click.echo(f"penstock: not committed yet: {error}", err=True)

    with (
        session_with(zookeeper) as session,
        GroupConsumer(
            brokers, session, group, [lines.topic], start=start, before_release=commit
        ) as consumer,
    ):
        remaining_count = count
        commit_time = time.monotonic() + _COMMITS_EVERY_S
        while remaining_count != 0:
            for message in consumer.poll(1.0):
                if remaining_count == 0:
                    break
                remaining_count = None if remaining_count is None else remaining_count - 1
                lines.add(message.partition, message.record)
            sys.stdout.flush()
            if time.monotonic() >= commit_time:
                commit()
                commit_time = time.monotonic() + _COMMITS_EVERY_S
