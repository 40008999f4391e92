"""What is remembered of administration: a line for each thing that was changed, or refused."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.api.changes import REMEMBERED
from broker.api.operations import RULES, Rule
from broker.configs.config import AuthorizationConfig
from ground.administration.entries import OK, Entry, Kind
from ground.logins.scram import ScramMechanism
from tests.broker.api.questions import QUESTIONS, Ask
from tests.broker.api.remembered import RememberedChanges
from tests.broker.api.requests import (
    SET,
    acl,
    add_acls,
    alter_users,
    ask_metadata,
    change_configs,
    creatable,
    create,
    delete,
    delete_before,
    deletion,
    extend,
    remove_acls,
    set_quota,
    unused,
    upsertion,
)
from tests.broker.api.rules import EVERYTHING, Rules, rule
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.acls import Operation, PatternType, Permission, ResourceType
from wire.errors import ErrorCode

CHANGES_SOMETHING = {Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS}
BY_ASKING = "topics created on first use"
ROWS = [
    pytest.param(key, each, question, id=f"{key}-{each.operation.words}-{each.kind.words}")
    for key, rules in RULES.items()
    for each, question in zip(
        (each for each in rules if each.kind is not ResourceType.TRANSACTIONAL_ID),
        QUESTIONS.get(key, ()),
        strict=True,
    )
    if each.operation in CHANGES_SOMETHING and each.needed_for != BY_ASKING
]


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"authorization": AuthorizationConfig(), "cluster": "a-cluster"}


@pytest.fixture
def remembered(running: RunningBroker) -> RememberedChanges:
    return RememberedChanges(running.broker.config.data_dir)


@pytest.fixture
def topic(client: RawClient, permit: Callable[[Rules], None]) -> str:
    permit(EVERYTHING)
    name = unused()
    (result,) = client.create(name).topics
    assert result.error_code is ErrorCode.none, result.error_message
    return name


def test_every_api_that_changes_something_leaves_entries() -> None:
    assert {each.values[0] for each in ROWS} == REMEMBERED.keys(), (
        "an administrative API without a row in broker.api.changes"
    )


def _is_of(key: int, needed: Rule, topic: str) -> Callable[[Entry], bool]:
    row = REMEMBERED[key]
    of_broker = row.kind is Kind.TOPIC_CONFIG and needed.kind is ResourceType.CLUSTER
    kind = Kind.BROKER_CONFIG if of_broker else row.kind

    def is_it(entry: Entry) -> bool:
        if entry.kind != kind or (kind is Kind.TOPIC and entry.action != row.action):
            return False
        return not (entry.name == topic and entry.action == "create")  # made for the test

    return is_it


@pytest.mark.parametrize(("key", "needed", "ask"), ROWS)
def test_what_was_refused_or_done_stands_there_with_who_asked(
    *,
    client: RawClient,
    running: RunningBroker,
    topic: str,
    permit: Callable[[Rules], None],
    key: int,
    needed: Rule,
    ask: Ask,
) -> None:
    denied = [
        rule(operation, kind, permission=Permission.DENY) for operation, kind in needed.rights
    ]
    for refused in (True, False):
        permit([*EVERYTHING, *denied] if refused else EVERYTHING)
        remembered = RememberedChanges(running.broker.config.data_dir)
        ask(client, topic)
        entry = remembered.one(_is_of(key, needed, topic))
        assert entry.result.endswith("_AUTHORIZATION_FAILED") == refused
        assert (entry.principal, entry.address) == ("ANONYMOUS", "127.0.0.1")
        assert (entry.listener, entry.client_id) == ("PLAINTEXT", "test")
        assert (entry.program, entry.cluster) == ("broker 1", "a-cluster")


def test_the_life_of_a_topic(remembered: RememberedChanges, client: RawClient, topic: str) -> None:
    def last(action: str, kind: Kind = Kind.TOPIC) -> Entry:
        return remembered.one(
            lambda each: (each.action, each.kind, each.name) == (action, kind, topic)
        )

    assert last("create").after == {"partitions": "1"}
    extend(client, topic, 3)
    extended = last("extend")
    assert (extended.before, extended.after) == ({"partitions": "1"}, {"partitions": "3"})

    for times, value in enumerate(("1000000", "2000000"), 1):
        change_configs(client, topic, ("retention.ms", SET, value))
        altered = remembered.some(times, lambda each: each.kind == Kind.TOPIC_CONFIG)[-1]
        assert altered.after == {"retention.ms": value}
    assert altered.before == {"retention.ms": "1000000"}

    client.produce(topic, batch(1, 2, 3))
    delete_before(client, topic, 2)
    deleted = last("delete", Kind.RECORDS)
    assert (deleted.before, deleted.after) == ({"start of 0": "0"}, {"start of 0": "2"})

    delete(client, topic)
    gone = last("delete")
    assert (gone.result, gone.before) == (OK, {"partitions": "3"})


def test_a_topic_that_is_created_by_asking(
    client: RawClient, permit: Callable[[Rules], None], remembered: RememberedChanges
) -> None:
    permit(EVERYTHING)
    name = unused()
    for _ in range(2):
        ask_metadata(client, name, create=True)
    entry = remembered.one(lambda each: each.name == name)
    assert (entry.action, entry.result, entry.after) == ("create", OK, {"partitions": "1"})


def test_users_without_their_passwords(
    client: RawClient, permit: Callable[[Rules], None], remembered: RememberedChanges
) -> None:
    permit(EVERYTHING)
    name = unused("u")
    secret = b"salted-password-that-nobody-must".ljust(64, b"!")
    alter_users(client, upsertion(name, salted_password=secret))
    alter_users(client, deletion(name))
    sha = str(ScramMechanism.SHA_512)
    made = remembered.one(lambda each: (each.name, each.action) == (name, "create"))
    assert made.after == {sha: "another password, 4096 iterations"}
    gone = remembered.one(lambda each: (each.name, each.action) == (name, "delete"))
    assert (gone.before, gone.after) == ({sha: "4096 iterations"}, {})
    assert "salted-password" not in str(remembered.since())


def test_acls_and_quotas(
    client: RawClient, permit: Callable[[Rules], None], remembered: RememberedChanges
) -> None:
    permit(EVERYTHING)
    name = unused()
    add_acls(client, acl(name, resource_pattern_type=PatternType.PREFIXED))
    remove_acls(client, name)
    added = remembered.one(lambda each: (each.name, each.action) == (f"topic:{name}", "create"))
    removed = remembered.one(lambda each: (each.name, each.action) == (f"topic:{name}", "delete"))
    assert added.after == removed.before
    assert added.after["principal"] == "User:alice"
    assert (added.after["operation"], added.after["pattern"]) == ("Read", "Prefixed")

    for rate in (100.0, 200.0):
        set_quota(client, name, "producer_byte_rate", rate)
    last = remembered.one(
        lambda each: each.name == f"user={name}" and each.after == {"producer_byte_rate": "200"}
    )
    assert last.before == {"producer_byte_rate": "100"}


def test_names_from_outside_are_bounded_and_stay_in_their_place(
    client: RawClient, permit: Callable[[Rules], None], remembered: RememberedChanges
) -> None:
    permit(EVERYTHING)
    name = '"},\n{"principal":"somebody else"\u2028' + "x" * 5_000
    (result,) = client.create(name).topics
    assert result.error_code is ErrorCode.invalid_topic_exception
    entry = remembered.one(lambda each: each.name.startswith(name[:30]))
    assert entry.principal == "ANONYMOUS"
    assert len(entry.name) < 600


def test_what_only_asks_whether_it_would_be_done_leaves_nothing(
    client: RawClient, permit: Callable[[Rules], None], remembered: RememberedChanges
) -> None:
    permit(EVERYTHING)
    name = unused()
    (result,) = create(client, creatable(name), validate_only=True)
    assert result.error_code is ErrorCode.none
    client.create(f"{name}-then")
    remembered.one(lambda each: each.name == f"{name}-then")
    assert not [each for each in remembered.since() if each.name == name]
