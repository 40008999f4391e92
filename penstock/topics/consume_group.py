"""`penstock consume --group`: what one member of a group reads, printed and then committed."""

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
    """Until Ctrl-C, or for `count` messages. Whichever way it ends, the member leaves its group."""
    brokers.topic(lines.topic, Operation.READ)

    def commit() -> None:
        """What is committed is through."""
        sys.stdout.flush()
        try:
            consumer.commit()
        except Fenced:
            click.echo(
                "penstock: the session with ZooKeeper has ended: some of what was printed will be "
                "printed again, by whoever has these partitions now",
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
        left = count
        due = time.monotonic() + _COMMITS_EVERY_S
        while left != 0:
            for message in consumer.poll(1.0):
                if left == 0:
                    break
                left = None if left is None else left - 1
                lines.add(message.partition, message.record)
            sys.stdout.flush()
            if time.monotonic() >= due:
                commit()
                due = time.monotonic() + _COMMITS_EVERY_S
