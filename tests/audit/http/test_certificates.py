"""Who may ask for certificates over HTTP, and what is not answered."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from harness.penstock.audit import Answer, AuditProcess
from ledger.certificate_requests import HEADS_PATH, MOST_BYTES, MOST_HOURS, PATH
from tests.audit.http.locked import (
    ADDRESSES,
    ALICE,
    OLGA,
    TOKEN,
    LockedAudit,
    basic,
    bearer,
)

HOUR: Final = 3_600_000
DRAFT: Final = {"topic": "clicks", "topic_id": "", "hour": 4 * HOUR, "rows": 1, "subject": []}
REQUEST: Final = {
    "cluster": "test",
    "table": "clicks",
    "destination": "file:///logs",
    "version": "1",
    "number": 1,
    "previous": None,
    "hours": [DRAFT],
}
Shown = Callable[[LockedAudit], Mapping[str, str]]


def ask(
    audit: AuditProcess | LockedAudit, shown: Mapping[str, str], body: object = REQUEST, **how: Any
) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json", **shown}
    return audit.ask(PATH, method="POST", headers=headers, body=content, **how)


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        (lambda _: {}, 401),
        (lambda _: bearer("x" * 43), 401),
        (lambda audit: {"cookie": audit.session(ALICE), "origin": "https://evil.example"}, 403),
        (lambda audit: {"cookie": audit.session(OLGA), "sec-fetch-site": "cross-site"}, 403),
        (lambda _: bearer(TOKEN), 200),
        (lambda _: basic(ALICE), 200),
    ],
)
def test_whoever_may_read_may_ask(quiet: LockedAudit, shown: Shown, status: int) -> None:
    answer = ask(quiet, shown(quiet), address=next(ADDRESSES))
    assert answer.status == status, answer


def test_a_topic_that_is_not_known_has_no_certificate(audit: AuditProcess) -> None:
    """This audit has not read any ledger yet: it may know it in a moment."""
    answers = json.loads(ask(audit, {}).body)
    ((answer,), key) = (answers["hours"], answers["key"])
    assert "topic clicks is not known yet" in answer["refused"]
    assert answer["soon"]
    assert len(key) == 44


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"nonsense", "invalid body"),
        (b"[" * 100_000, "invalid body"),
        ({}, "invalid body"),
        (REQUEST | {"hours": []}, f"1 to {MOST_HOURS} hours"),
        (REQUEST | {"hours": [DRAFT] * (MOST_HOURS + 1)}, f"1 to {MOST_HOURS} hours"),
        (REQUEST | {"hours": [DRAFT | {"hour": 1}]}, "the beginning of an hour"),
        (b" " * (MOST_BYTES + 1), "larger than"),
    ],
)
def test_nonsense_is_refused(audit: AuditProcess, body: object, words: str) -> None:
    answer = ask(audit, {}, body)
    assert answer.status == 400
    assert words in json.loads(answer.body)["error"]


def test_it_takes_post_alone(audit: AuditProcess) -> None:
    answer = audit.ask(PATH)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert ask(audit, {"content-type": "text/plain"}).status == 400


def test_heads_files_are_for_those_who_may_read(quiet: LockedAudit) -> None:
    """This audit has made none."""
    path = f"{HEADS_PATH}{'a' * 64}"
    assert quiet.ask(path, headers={}, address=next(ADDRESSES)).status == 401
    answer = quiet.ask(path, headers=bearer(TOKEN), address=next(ADDRESSES))
    assert (answer.status, json.loads(answer.body)["error"]) == (
        404,
        "this heads file is not kept: ask for the certificates again",
    )
