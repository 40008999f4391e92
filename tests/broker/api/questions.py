"""A request of each API, about one topic where it is about topics: one for each right that requests
of the API may need (`broker.api.operations`), in that order."""

from collections.abc import Callable
from typing import Any

from tests.broker.api import requests as ask
from tests.broker.api.fetching import whole
from tests.broker.api.running_broker import RawClient, batch
from wire.messages import (
    alter_partition_reassignments,
    delete_groups,
    describe_client_quotas,
    describe_log_dirs,
    describe_user_scram_credentials,
    elect_leaders,
    fetch,
    list_partition_reassignments,
    offset_delete,
)
from wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

Ask = Callable[[RawClient, str], Any]
NOBODYS_ACLS = "nothing-stands-here"


def ask_fetch(client: RawClient, topic: str, *, replica_id: int = -1) -> Any:
    return client.ask(fetch.API, 12, whole({(topic, 0): 0}, replica_id=replica_id))


def ask_offset_delete(client: RawClient, topic: str) -> Any:
    # Of a group that is not there, nothing is said of topics.
    ask.join(client, "group", version=9)
    partition = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    named = offset_delete.OffsetDeleteRequestTopic(name=topic, partitions=(partition,))
    request = offset_delete.OffsetDeleteRequest(group_id="group", topics=(named,))
    return client.ask(offset_delete.API, 0, request)


def ask_deleted_groups(client: RawClient, *groups: str, version: int = 2) -> Any:
    request = delete_groups.DeleteGroupsRequest(groups_names=groups)
    return client.ask(delete_groups.API, version, request).results


def ask_log_dirs(client: RawClient, _topic: str) -> Any:
    request = describe_log_dirs.DescribeLogDirsRequest(topics=None)
    return client.ask(describe_log_dirs.API, 4, request)


def ask_elected(client: RawClient, topic: str) -> Any:
    named = elect_leaders.TopicPartitions(topic=topic, partitions=(0,))
    request = elect_leaders.ElectLeadersRequest(topic_partitions=(named,))
    return client.ask(elect_leaders.API, 2, request)


def ask_reassigned(client: RawClient, topic: str) -> Any:
    moves = alter_partition_reassignments
    partition = moves.ReassignablePartition(partition_index=0, replicas=(1,))
    named = moves.ReassignableTopic(name=topic, partitions=(partition,))
    request = moves.AlterPartitionReassignmentsRequest(topics=(named,))
    return client.ask(moves.API, 0, request)


def ask_quotas(client: RawClient, _topic: str) -> Any:
    request = describe_client_quotas.DescribeClientQuotasRequest(components=())
    return client.ask(describe_client_quotas.API, 1, request)


def ask_users(client: RawClient, _topic: str) -> Any:
    scram = describe_user_scram_credentials
    return client.ask(scram.API, 0, scram.DescribeUserScramCredentialsRequest(users=None))


def _commit(client: RawClient, topic: str) -> Any:
    return ask.commit(client, "group", (topic, 0, ""))


def _committed(client: RawClient, topic: str) -> Any:
    return ask.committed(client, "group", topic)


# By API, one for each row of its rules.
QUESTIONS: dict[int, tuple[Ask, ...]] = {
    0: (lambda client, topic: client.produce(topic, batch(1)),),
    1: (ask_fetch, lambda client, topic: ask_fetch(client, topic, replica_id=7)),
    2: (lambda client, topic: ask.list_offset(client, topic, -1),),
    3: (ask.ask_metadata, lambda client, _: ask.described(client, ask.unused(), create=True)),
    8: (_commit, _commit),
    9: (_committed, _committed),
    10: (lambda client, _: ask.find(client, 4),),
    11: (lambda client, _: ask.join(client, "group", version=9),),
    12: (lambda client, _: ask.beat(client, "group"),),
    13: (lambda client, _: ask.leave(client, "group", "nobody"),),
    14: (lambda client, _: ask.sync(client, "group"),),
    15: (lambda client, _: ask.describe_group(client, "group"),),
    19: (lambda client, _: client.create(ask.unused()),),
    20: (ask.delete,),
    21: (lambda client, topic: ask.delete_before(client, topic, 0),),
    22: (lambda client, _: ask.ask_producer_id(client, transaction_timeout=60_000),),
    23: (lambda client, topic: ask.end_of_epoch(client, topic, 0),),
    29: (lambda client, _: ask.find_acls(client, NOBODYS_ACLS),),
    30: (lambda client, _: ask.add_acls(client, ask.acl("other", principal="User:nobody")),),
    31: (lambda client, _: ask.remove_acls(client, NOBODYS_ACLS),),
    32: (
        lambda client, topic: ask.describe_config(client, ask.OF_TOPIC, topic),
        lambda client, _: ask.describe_config(client, ask.OF_BROKER, "1"),
    ),
    33: (
        lambda client, topic: ask.replace_configs(client, topic, {}),
        lambda client, _: ask.replace_configs(client, "1", {}, kind=ask.OF_BROKER),
    ),
    35: (ask_log_dirs,),
    37: (lambda client, topic: ask.extend(client, topic, 2),),
    42: (lambda client, _: ask_deleted_groups(client, "group"),),
    43: (ask_elected,),
    44: (ask.change_configs, lambda client, _: ask.change_configs(client, "2", kind=ask.OF_BROKER)),
    45: (ask_reassigned,),
    46: (
        lambda client, _: client.ask(
            list_partition_reassignments.API, 0, ListPartitionReassignmentsRequest()
        ),
    ),
    47: (ask_offset_delete, ask_offset_delete),
    48: (ask_quotas,),
    49: (lambda client, _: ask.set_quota(client, "u", "producer_byte_rate", 1_000.0),),
    50: (ask_users,),
    51: (lambda client, _: [*ask.alter_users(client, ask.deletion("nobody", 1)).values()],),
    61: (lambda client, topic: ask.producers(client, topic, 0),),
}
