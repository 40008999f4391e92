"""Who may write to copies."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.config import AuthorizationConfig
from tests.broker.api.mirroring import MARK, mirror, source_batch
from tests.broker.api.rules import EVERYTHING, Rules, rule
from tests.broker.api.running_broker import RawClient
from wire.acls import Operation, Permission, ResourceType
from wire.errors import ErrorCode
from wire.mirrored import MIRROR_ID, MIRROR_OF

WRITE = Operation.WRITE
TRANSACTION = ResourceType.TRANSACTIONAL_ID


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"authorization": AuthorizationConfig(super_users=("User:admin",))}


def test_the_mirror_needs_write_on_its_transactional_id_and_on_the_topic(
    client: RawClient, permit: Callable[[Rules], None], new_topic: Callable[..., str]
) -> None:
    permit(EVERYTHING)
    copy, other = (new_topic(configs={MIRROR_OF: MARK}) for _ in range(2))
    id_refused = ErrorCode.transactional_id_authorization_failed
    for rules, expected in [
        ([], id_refused),
        ([rule(WRITE, name=copy)], id_refused),
        ([rule(WRITE, name=copy), rule(WRITE, TRANSACTION, "other")], id_refused),
        ([rule(WRITE, TRANSACTION, MIRROR_ID)], ErrorCode.topic_authorization_failed),
        ([rule(WRITE, TRANSACTION, MIRROR_ID), rule(WRITE, name=copy)], ErrorCode.none),
        (
            [
                *EVERYTHING,
                rule(WRITE, TRANSACTION, MIRROR_ID, permission=Permission.DENY),
            ],
            id_refused,
        ),
    ]:
        permit(rules)
        answer = mirror(client, copy, source_batch(0))
        assert answer.error_code is expected, rules
        if expected is ErrorCode.none:
            refused = mirror(client, other, source_batch(0)).error_code
            assert refused is ErrorCode.topic_authorization_failed
        else:
            assert answer.error_message is not None
            assert "not authorized: Write on" in answer.error_message


def test_with_its_rights_alone_it_may_write_to_no_other_topic(
    client: RawClient, permit: Callable[[Rules], None], new_topic: Callable[..., str]
) -> None:
    permit(EVERYTHING)
    ordinary = new_topic()
    permit([rule(WRITE, TRANSACTION, MIRROR_ID), rule(WRITE, name="*")])
    answer = mirror(client, ordinary, source_batch(0))
    assert answer.error_code is ErrorCode.policy_violation
