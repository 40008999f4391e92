"""The APIs of consumer groups against a running broker: who waits, what is refused and noted."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.access.acl_evaluation import bits
from broker.configs.config import AuthorizationConfig, GroupsConfig
from ground.administration.entries import OK, Kind
from harness.processes.waiting import wait_until
from tests.broker.api.questions import ask_deleted_groups
from tests.broker.api.remembered import RememberedChanges
from tests.broker.api.requests import (
    beat,
    commit,
    committed,
    describe_group,
    join,
    joining,
    leave,
    sync,
    unused,
)
from tests.broker.api.rules import EVERYTHING, Rules, rule
from tests.broker.api.running_broker import RawClient, RunningBroker
from wire.acls import OPERATIONS_ON, Operation, ResourceType
from wire.errors import ErrorCode
from wire.messages import describe_groups, join_group, list_groups

GROUP, TOPIC, CLUSTER = ResourceType.GROUP, ResourceType.TOPIC, ResourceType.CLUSTER
LONGEST_METADATA = 100


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {
        "authorization": AuthorizationConfig(),
        "groups": GroupsConfig(initial_rebalance_delay=0.0, offset_metadata_bytes=LONGEST_METADATA),
    }


@pytest.fixture(autouse=True)
def everybody(permit: Callable[[Rules], None]) -> None:
    permit(EVERYTHING)


@pytest.fixture
def group() -> str:
    return unused("group")


def beat_of(client: RawClient, group: str, member: join_group.JoinGroupResponse) -> ErrorCode:
    return beat(client, group, member.member_id, member.generation_id).error_code


def offsets(client: RawClient, group: str) -> dict[str, int]:
    return {
        topic.name: each.committed_offset
        for topic in committed(client, group).topics
        for each in topic.partitions
    }


def test_one_who_waits_to_join_keeps_only_himself_waiting(
    client: RawClient, running: RunningBroker, group: str
) -> None:
    first = join(client, group)
    with running.client() as waiting:
        waiting.begin(join_group.API, 3, joining(group))
        wait_until(lambda: beat_of(client, group, first) is ErrorCode.rebalance_in_progress)
        assert describe_group(client, group).group_state == "PreparingRebalance"
        again = join(client, group, first.member_id)
        assert (again.generation_id, len(again.members)) == (2, 2)
        joined = waiting.finish(join_group.API, 3)
        assert (joined.generation_id, joined.leader) == (2, first.member_id)


def test_one_who_goes_while_he_waits_is_no_member(
    client: RawClient, running: RunningBroker, group: str
) -> None:
    first = join(client, group)
    with running.client() as waiting:
        waiting.begin(join_group.API, 3, joining(group))
        wait_until(lambda: len(describe_group(client, group).members) == 2)
    wait_until(lambda: len(describe_group(client, group).members) == 1)
    again = join(client, group, first.member_id)
    assert [each.member_id for each in again.members] == [first.member_id]


def test_a_request_behind_one_that_waits_is_answered_after_it(
    client: RawClient, running: RunningBroker, group: str
) -> None:
    first = join(client, group)
    with running.client() as waiting:
        waiting.begin(join_group.API, 3, joining(group))
        request = list_groups.ListGroupsRequest()
        waiting.begin(list_groups.API, 4, request)
        wait_until(lambda: beat_of(client, group, first) is ErrorCode.rebalance_in_progress)
        join(client, group, first.member_id)
        assert waiting.finish(join_group.API, 3).generation_id == 2
        listed = waiting.finish(list_groups.API, 4).groups
        assert group in {each.group_id for each in listed}


def test_what_cannot_be_committed_keeps_nothing_else_from_it(
    client: RawClient, new_topic: Callable[[], str], permit: Callable[[Rules], None], group: str
) -> None:
    one, other = new_topic(), new_topic()
    permit([rule(Operation.READ, TOPIC, one), rule(Operation.READ, GROUP)])
    long = "ä" * (LONGEST_METADATA // 2 + 1)
    assert commit(client, group, (one, 0, "so far"), (other, 0, ""), ("no-such-topic", 0, "")) == [
        ErrorCode.none,
        ErrorCode.topic_authorization_failed,
        ErrorCode.topic_authorization_failed,
    ]
    permit(EVERYTHING)
    assert commit(
        client, group, (other, 1, ""), ("no-such-topic", 0, ""), ("", 0, ""), (other, 0, long)
    ) == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.offset_metadata_too_large,
    ]
    assert offsets(client, group) == {one: 7}


def test_of_topics_that_may_not_be_described_no_offset_is_told(
    client: RawClient, new_topic: Callable[[], str], permit: Callable[[Rules], None]
) -> None:
    one, other = new_topic(), new_topic()
    for topic in (one, other):
        commit(client, "group", (topic, 0, ""))
    permit([rule(Operation.DESCRIBE, TOPIC, one), rule(Operation.DESCRIBE, GROUP)])
    told = offsets(client, "group")
    assert told.get(one) == 7
    assert other not in told
    (hidden,) = committed(client, "group", other).topics
    assert hidden.partitions[0].error_code is ErrorCode.topic_authorization_failed


def test_listed_are_the_groups_that_one_may_describe(
    client: RawClient, permit: Callable[[Rules], None], group: str
) -> None:
    other = f"other-{group}"
    for name in (group, other):
        join(client, name)

    def listed() -> set[str]:
        answer = client.ask(list_groups.API, 4, list_groups.ListGroupsRequest())
        assert answer.error_code is ErrorCode.none
        return {each.group_id for each in answer.groups} & {group, other}

    permit([])
    assert listed() == set()
    permit([rule(Operation.DESCRIBE, GROUP, other)])
    assert listed() == {other}
    permit([rule(Operation.DESCRIBE, CLUSTER)])
    assert listed() == {group, other}


def test_what_one_may_do_with_a_group_is_told_to_who_asks(
    client: RawClient, permit: Callable[[Rules], None], group: str
) -> None:
    assert describe_group(client, group).authorized_operations == describe_groups.NOT_ASKED
    told = describe_group(client, group, asks=True).authorized_operations
    assert told == bits(OPERATIONS_ON[GROUP])
    permit([rule(Operation.READ, GROUP)])
    told = describe_group(client, group, asks=True).authorized_operations
    assert told == bits([Operation.READ, Operation.DESCRIBE])


def test_a_group_that_nobody_has_is_dead_and_has_no_members(client: RawClient, group: str) -> None:
    found = describe_group(client, group)
    assert (found.error_code, found.group_state, found.members) == (ErrorCode.none, "Dead", ())
    assert beat(client, group).error_code is ErrorCode.unknown_member_id
    assert sync(client, group).error_code is ErrorCode.unknown_member_id
    left = leave(client, group, "nobody")
    assert left.error_code is ErrorCode.none
    assert [each.error_code for each in left.members] == [ErrorCode.unknown_member_id]
    asked = join(client, group, "nobody", version=9)
    assert asked.error_code is ErrorCode.unknown_member_id
    assert offsets(client, group) == {}


@pytest.mark.parametrize("name", ["", "x" * 250])
def test_names_that_no_group_with_members_can_have(client: RawClient, name: str) -> None:
    assert join(client, name).error_code is ErrorCode.invalid_group_id


def test_one_without_a_group_has_offsets_under_any_name(
    client: RawClient, new_topic: Callable[[], str]
) -> None:
    topic = new_topic()
    for name in ("", "..", "ä/b", "x" * 249):
        assert commit(client, name, (topic, 0, "")) == [ErrorCode.none]
        assert offsets(client, name)[topic] == 7


def test_who_deletes_groups_and_offsets_is_remembered(
    client: RawClient, running: RunningBroker, new_topic: Callable[[], str], group: str
) -> None:
    changes = RememberedChanges(running.broker.config.data_dir)
    topic = new_topic()
    assert commit(client, group, (topic, 0, "")) == [ErrorCode.none]
    (result,) = ask_deleted_groups(client, group)
    assert result.error_code is ErrorCode.none
    noted = changes.one(lambda each: each.name == group)
    assert (noted.action, noted.kind, noted.result) == ("delete", Kind.GROUP.value, OK)
    assert describe_group(client, group).group_state == "Dead"


def test_groups_are_in_the_metrics(client: RawClient, running: RunningBroker, group: str) -> None:
    join(client, group)
    exposed = running.broker._metrics.exposition().decode()
    assert 'penstock_broker_groups{state="CompletingRebalance"}' in exposed
    assert join(client, "group", version=9).error_code is ErrorCode.member_id_required
    samples = dict(line.rsplit(" ", 1) for line in exposed.splitlines() if not line.startswith("#"))
    assert float(samples["penstock_broker_group_members"]) >= 1
    assert float(samples["penstock_broker_group_rebalances_total"]) >= 1
    allowed = float(samples['penstock_broker_allowed{of="group_members_bytes"}'])
    assert 0 < float(samples["penstock_broker_group_members_bytes"]) < allowed
    assert float(samples['penstock_broker_allowed{of="groups"}']) >= 1
