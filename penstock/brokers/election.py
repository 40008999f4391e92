"""`penstock brokers elect`: makes a broker's preferred replicas leaders again."""

import click

from client.admin.elections import elect_preferred
from client.admin.topics import all_topics
from client.connection.metadata import ClusterMetadata
from client.errors import ErrorCode
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, say
from penstock.connections.cluster import bootstrap_option, connected


def led_by_others(cluster: ClusterMetadata, broker: int) -> dict[str, list[int]]:
    """Returns the partitions whose preferred leader is `broker`, but whose leader is another
    broker."""
    partitions: dict[str, list[int]] = {}
    for name, topic in sorted(cluster.topics.items()):
        for partition in topic.partitions:
            if partition.replicas[:1] == (broker,) and partition.leader != broker:
                partitions.setdefault(name, []).append(partition.index)
    return partitions


@click.command()
@click.argument("broker", type=click.IntRange(0))
@bootstrap_option
@json_option
def elect(broker: int, bootstrap: str, as_json: bool) -> None:
    """Make a broker the leader of all partitions of which it is the preferred replica.

    The controller does so every few minutes. During a rolling restart, run this between two
    brokers, so that the next broker does not lead the partitions of both.

    Exit code 1: the broker does not lead all of them, as it is out of sync.

    \b
    Example:
        penstock brokers elect 2
    """
    with connected(bootstrap) as brokers:
        cluster = all_topics(brokers)
        if broker not in cluster.brokers:
            raise Failed(f"no broker {broker} in the cluster")
        partitions = led_by_others(cluster, broker)
        results = elect_preferred(brokers, partitions) if partitions else {}
    leads = sorted(key for key, error in results.items() if error is ErrorCode.none)
    errors = {key: error for key, error in results.items() if error is not ErrorCode.none}
    if as_json:
        print_json(
            {
                "elected": [{"topic": name, "partition": index} for name, index in leads],
                "refused": [
                    {"topic": name, "partition": index, "why": error.name}
                    for (name, index), error in sorted(errors.items())
                ],
            }
        )
    else:
        say(f"broker {broker} leads {len(leads):,} partitions again")
    if errors:
        (name, index), error = min(errors.items())
        suffix = f" and {len(errors) - 1:,} more" if len(errors) > 1 else ""
        raise Failed(f"broker {broker} does not lead {name}-{index}: {error.name}{suffix}")
