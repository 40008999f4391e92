"""`penstock groups` where something is not allowed: the line says which right is missing."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.config import AuthorizationConfig
from tests.broker.api.conftest import client, permit, running
from tests.broker.api.rules import EVERYTHING, Rules, rule
from tests.broker.api.running_broker import RunningBroker
from tests.penstock.groups.test_groups_commands import a_topic
from tests.penstock.running import At
from wire.acls import Operation, ResourceType

__all__ = ["client", "permit", "running"]

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
WHO = "User:ANONYMOUS (there is no login)"


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"authorization": AuthorizationConfig()}


@pytest.fixture
def guarded(running: RunningBroker) -> At:
    return At(f"127.0.0.1:{running.port}")


def test_which_right_is_missing_is_said(
    guarded: At, permit: Callable[[Rules], None], new_topic: str
) -> None:
    permit(EVERYTHING)
    a_topic(guarded, new_topic)
    reset = ["reset", new_topic, "--topic", new_topic, "--to-end", "--yes"]
    guarded.output("groups", *reset, "--new")
    sees_topic = rule(Operation.DESCRIBE, TOPIC, new_topic)
    sees_group = rule(Operation.DESCRIBE, GROUP, new_topic)
    forget = ["delete-offsets", new_topic, "--topic", new_topic, "--yes"]
    deletes_group = rule(Operation.DELETE, GROUP, new_topic)
    reads_group = rule(Operation.READ, GROUP, new_topic)
    for rules, command, missing in (
        ([], ["describe", new_topic], f"DESCRIBE or READ on group {new_topic}"),
        ([sees_group], ["delete", new_topic, "-y"], f"DELETE on group {new_topic}"),
        ([sees_group, sees_topic], forget, f"DELETE on group {new_topic}"),
        ([deletes_group, sees_topic], forget, f"READ on topic {new_topic}"),
        ([sees_group], reset, f"topic {new_topic}"),
        ([sees_group, sees_topic], reset, f"READ on group {new_topic}"),
        ([reads_group, sees_topic], reset, f"READ on topic {new_topic}"),
    ):
        permit(rules)
        ended = guarded.run("groups", *command)
        assert ended.returncode == 1, command
        assert ended.stderr.startswith("penstock: "), ended.stderr
        assert f"not allowed: {WHO} needs " in ended.stderr, ended.stderr
        assert ended.stderr.endswith(f"{missing}\n"), ended.stderr
    permit([])
    assert guarded.json("groups", "list") == []
    permit([rule(Operation.DESCRIBE, ResourceType.CLUSTER)])
    [listed] = guarded.json("groups", "list")
    assert (listed["name"], listed["state"]) == (new_topic, "Empty")
    assert (listed["kind"], listed["members"]) == (None, None)
    permit([sees_group])
    assert [each["name"] for each in guarded.json("groups", "list")] == [new_topic]
    [found] = guarded.json("groups", "describe", new_topic)
    assert found["partitions"] == []  # of a topic that it may not see
