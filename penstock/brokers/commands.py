"""`penstock brokers list`, `describe`: asked of a cluster's brokers."""

import click

from client.admin.topics import all_topics
from penstock.brokers.replica_roles import (
    AWAY,
    BEHIND,
    IN_SYNC,
    LEADS,
    BrokerStanding,
    standings,
    why_under,
)
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, print_table
from penstock.connections.cluster import bootstrap_option, connected

COLUMNS = (
    *("id", "address", "rack", "controller"),
    *("leads", "replicas", "behind", "under_replicated", "waiting"),
)
REPLICA_COLUMNS = ("topic", "partition", "role", "leader", "in_sync", "of", "why")


@click.command()
@bootstrap_option
@json_option
def list_brokers(bootstrap: str, as_json: bool) -> None:
    """List all brokers: those that are there, and those that have replicas and are not.

    `leads` and `replicas` are numbers of partitions. Of its replicas, so many are `behind`, not in
    sync with their leader; of what it leads, so many are `under replicated`. While a broker is
    away, so many partitions are `waiting`: they have no leader before it is back.

    \b
    Example:
        penstock brokers list
        penstock brokers list --json | jq '.[] | select(.address == null)'
    """
    with connected(bootstrap) as brokers:
        cluster = all_topics(brokers)
    rows = [_row(standing, cluster.controller) for standing in standings(cluster).values()]
    if as_json:
        print_json(rows)
    else:
        print_table(COLUMNS, [row | {"address": row["address"] or AWAY} for row in rows])


def _row(standing: BrokerStanding, controller: int) -> dict[str, object]:
    broker = standing.broker
    in_sync = standing.count(LEADS, IN_SYNC) + sum(
        replica.role == AWAY and standing.id in replica.partition.in_sync
        for replica in standing.replicas
    )
    return {
        "id": standing.id,
        "address": None if broker is None else str(broker.address),
        "rack": None if broker is None else broker.rack,
        "controller": standing.id == controller,
        "leads": standing.count(LEADS),
        "replicas": len(standing.replicas),
        "behind": len(standing.replicas) - in_sync,
        "under_replicated": standing.under_replicated,
        "waiting": standing.waiting,
    }


@click.command()
@click.argument("broker", type=click.IntRange(0))
@click.option("--behind", "only_behind", is_flag=True, help="Only what is not in sync there.")
@bootstrap_option
@json_option
def describe(broker: int, only_behind: bool, bootstrap: str, as_json: bool) -> None:
    """Show one broker's partitions, and what each of its replicas is.

    It `leads`, is `in sync`, or `behind`; all are `away` while the broker is.

    \b
    Example:
        penstock brokers describe 2
        penstock brokers describe 2 --behind
    """
    with connected(bootstrap) as brokers:
        cluster = all_topics(brokers)
    found = standings(cluster).get(broker)
    if found is None:
        raise Failed(f"no broker {broker}: it is not there, and has no replicas")
    rows = [
        {
            "topic": replica.topic,
            "partition": replica.partition.index,
            "role": replica.role,
            "leader": replica.partition.leader if replica.partition.leader >= 0 else None,
            "in_sync": len(replica.partition.in_sync),
            "of": len(replica.partition.replicas),
            "why": why_under(replica.partition, cluster),
        }
        for replica in found.replicas
        if not only_behind or replica.role == BEHIND or broker not in replica.partition.in_sync
    ]
    if as_json:
        print_json({**_row(found, cluster.controller), "partitions": rows})
        return
    row = _row(found, cluster.controller)
    print_table(COLUMNS, [row | {"address": row["address"] or AWAY}])
    if rows:
        print()
        print_table(REPLICA_COLUMNS, rows)
