"""`penstock brokers list` and `describe`."""

import click

from client.admin.topics import all_topics
from penstock.brokers.replica_roles import (
    AWAY,
    BEHIND,
    IN_SYNC,
    LEADS,
    BrokerRoles,
    roles_by_broker,
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
    """List all brokers, including those that are down and have replicas.

    All columns are numbers of partitions: those that the broker `leads`, its `replicas`, those of
    them that are `behind` (out of sync), led partitions that are `under replicated`, and partitions
    that are `waiting` for the broker, as they have no leader until it returns.

    \b
    Example:
        penstock brokers list
        penstock brokers list --json | jq '.[] | select(.address == null)'
    """
    with connected(bootstrap) as brokers:
        cluster = all_topics(brokers)
    rows = [_row(roles, cluster.controller) for roles in roles_by_broker(cluster).values()]
    if as_json:
        print_json(rows)
    else:
        print_table(COLUMNS, [row | {"address": row["address"] or AWAY} for row in rows])


def _row(roles: BrokerRoles, controller: int) -> dict[str, object]:
    broker = roles.broker
    in_sync_count = roles.count(LEADS, IN_SYNC) + sum(
        replica.role == AWAY and roles.id in replica.partition.in_sync for replica in roles.replicas
    )
    return {
        "id": roles.id,
        "address": None if broker is None else str(broker.address),
        "rack": None if broker is None else broker.rack,
        "controller": roles.id == controller,
        "leads": roles.count(LEADS),
        "replicas": len(roles.replicas),
        "behind": len(roles.replicas) - in_sync_count,
        "under_replicated": roles.under_replicated,
        "waiting": roles.waiting,
    }


@click.command()
@click.argument("broker", type=click.IntRange(0))
@click.option("--behind", "only_behind", is_flag=True, help="Only replicas that are out of sync.")
@bootstrap_option
@json_option
def describe(broker: int, only_behind: bool, bootstrap: str, as_json: bool) -> None:
    """Show one broker's partitions, and the role of each of its replicas.

    A replica `leads`, is `in sync` or `behind`, or is `away` while its broker is.

    \b
    Example:
        penstock brokers describe 2
        penstock brokers describe 2 --behind
    """
    with connected(bootstrap) as brokers:
        cluster = all_topics(brokers)
    roles = roles_by_broker(cluster).get(broker)
    if roles is None:
        raise Failed(f"no broker {broker}: it is not in the cluster, and has no replicas")
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
        for replica in roles.replicas
        if not only_behind or replica.role == BEHIND or broker not in replica.partition.in_sync
    ]
    if as_json:
        print_json({**_row(roles, cluster.controller), "partitions": rows})
        return
    row = _row(roles, cluster.controller)
    print_table(COLUMNS, [row | {"address": row["address"] or AWAY}])
    if rows:
        print()
        print_table(REPLICA_COLUMNS, rows)
