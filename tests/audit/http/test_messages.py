"""Who is shown messages, before any broker is asked."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from harness.penstock.audit import AuditProcess
from tests.audit.http.locked import (
    ADDRESSES,
    ALICE,
    OLGA,
    OPERATORS_TOKEN,
    TOKEN,
    LockedAudit,
    basic,
    bearer,
)

OPERATORS: Final = "only operators may see messages (`messages.shown_to`)"
AWAY: Final = "the brokers of test did not answer the request: no broker at 127.0.0.1:9"


@pytest.mark.parametrize(
    ("shown", "asked", "status", "why"),
    [
        ({}, "topic=clicks", 401, "authentication required"),
        (basic(ALICE), "topic=clicks", 403, OPERATORS),
        (bearer(TOKEN), "topic=clicks", 403, OPERATORS),
        (basic(OLGA), "topic=clicks", 502, AWAY),
        (bearer(OPERATORS_TOKEN), "topic=clicks.dead&offset=4711", 502, AWAY),
        (basic(OLGA), "topic=orders", 404, "this audit shows no messages of topic orders"),
        (basic(OLGA), "topic=_audit", 404, "this audit shows no messages of topic _audit"),
        (basic(OLGA), "topic=clicks&cluster=no", 400, "`cluster` must be one of test"),
        (basic(OLGA), "topic=clicks&size=51", 400, "Expected `int` <= 50"),
        (basic(OLGA), "topic=clicks&offset=-1", 400, "Expected `int` >= 0"),
    ],
)
def test_who_is_shown_which_messages(
    quiet: LockedAudit, shown: Mapping[str, str], asked: str, status: int, why: str
) -> None:
    answer = quiet.ask(f"/api/v1/messages?{asked}", headers=shown, address=next(ADDRESSES))
    assert (answer.status, json.loads(answer.body)["error"][: len(why)]) == (status, why)


def test_without_logins_a_name_that_leads_here_is_no_way(
    tmp_path: Path, audit: AuditProcess
) -> None:
    """Any site can make its own name lead to this machine, and its pages read what they ask there.
    And without a word of the configuration nobody is shown anything."""
    assert audit.ask("/api/v1/messages?topic=clicks").status == 403
    settings = {"messages": {"topics": ["*"], "shown_to": "readers"}}
    with AuditProcess(tmp_path, settings=settings) as open_to_all:
        for host, status in (("localhost:8090", 502), ("[::1]", 502), ("evil.example:8090", 421)):
            answer = open_to_all.ask("/api/v1/messages?topic=clicks", headers={"host": host})
            assert answer.status == status, host
        assert json.loads(open_to_all.ask("/session").body)["messages"] == ["*"]
        refused = open_to_all.ask("/api/v1/messages?topic=clicks", method="DELETE")
        assert refused.status == 403
