"""Who may say something over HTTP, and who only reads: every statement, tried by everybody."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from audit.http.endpoints.alerts import NOTE_PATHS
from audit.http.statements import MOST_BYTES, PATHS
from harness.penstock.audit import Answer
from tests.audit.http.locked import (
    ADDRESSES,
    ALICE,
    OLGA,
    OPERATORS_TOKEN,
    PROXY,
    TOKEN,
    LockedAudit,
    basic,
    bearer,
)

SAID: Final[Mapping[str, Mapping[str, Any]]] = {
    "/api/v1/accept": {"topic": "clicks", "host": "web-3", "reason": "known"},
    "/api/v1/retire": {"host": "web-3", "since": 0, "reason": "sold"},
    "/api/v1/acknowledge": {"id": "0123456789ab", "reason": "known"},
    "/api/v1/silence": {"kind": "late", "until": 2**50, "reason": "known"},
    "/api/v1/unsilence": {"id": "01234567"},
}


def say(
    audit: LockedAudit, path: str, shown: Mapping[str, str], *, address: str = "", body: object = ""
) -> Answer:
    return audit.ask(
        path,
        method="POST",
        headers={"content-type": "application/json", **shown},
        body=body if isinstance(body, bytes) else json.dumps(body or SAID[path]).encode(),
        address=address or next(ADDRESSES),
    )


def test_every_statement_is_tried_here() -> None:
    assert set(SAID) == PATHS


def ours(audit: LockedAudit, user: tuple[str, str]) -> dict[str, str]:
    """As a browser sends it from our page."""
    return {"cookie": audit.session(user), "origin": audit.url, "sec-fetch-site": "same-origin"}


Shown = Callable[[LockedAudit], Mapping[str, str]]
REFUSED: Final[Mapping[str, tuple[Shown, int, str]]] = {
    "nobody": (lambda audit: {"origin": audit.url}, 401, "-"),
    "nobody, from nowhere": (lambda _: {}, 403, "-"),
    "a wrong token": (lambda _: bearer("x" * 43), 401, "-"),
    "a reader": (lambda audit: ours(audit, ALICE), 403, "alice"),
    "a reader's password": (lambda _: basic(ALICE), 403, "alice"),
    "a reader's token": (lambda _: bearer(TOKEN), 403, "prometheus"),
    "an operator, from nowhere": (lambda audit: {"cookie": audit.session(OLGA)}, 403, "-"),
    "an operator, led by another site": (
        lambda audit: {"cookie": audit.session(OLGA), "origin": "https://evil.example"},
        *(403, "-"),
    ),
    "an operator, led by a page without a name": (
        lambda audit: {"cookie": audit.session(OLGA), "origin": "null"},
        *(403, "-"),
    ),
    "an operator, led by a page in the clear": (
        lambda audit: ours(audit, OLGA) | {"origin": audit.url.replace("https", "http")},
        *(403, "-"),
    ),
    "an operator, from a neighbouring site": (
        lambda audit: ours(audit, OLGA) | {"sec-fetch-site": "same-site"},
        *(403, "-"),
    ),
    "an operator's token, led by another site": (
        lambda _: bearer(OPERATORS_TOKEN) | {"origin": "https://evil.example"},
        *(403, "-"),
    ),
    "an operator's password, by a browser without an origin": (
        lambda _: basic(OLGA) | {"sec-fetch-site": "cross-site"},
        *(403, "-"),
    ),
    "an operator's cookie beside a reader's token": (
        lambda audit: {**bearer(TOKEN), "cookie": audit.session(OLGA)},
        *(403, "prometheus"),
    ),
    "a forged header": (lambda audit: {"x-forwarded-user": "peter", "origin": audit.url}, 401, "-"),
}


@pytest.mark.parametrize("how", REFUSED)
@pytest.mark.parametrize("path", SAID)
def test_nobody_says_anything_but_operators(quiet: LockedAudit, path: str, how: str) -> None:
    shown, status, user = REFUSED[how]
    address = next(ADDRESSES)
    answer = say(quiet, path, shown(quiet), address=address)
    assert answer.status == status, answer
    (line,) = quiet.lines_about(address)
    assert f" user={user} asked='POST {path}' " in line


@pytest.mark.parametrize("path", SAID)
def test_operators_are_let_in(quiet: LockedAudit, path: str) -> None:
    ways = [
        (ours(quiet, OLGA), ""),
        (bearer(OPERATORS_TOKEN), ""),
        (basic(OLGA), ""),
        ({"x-forwarded-user": "peter", "origin": quiet.url}, PROXY),
    ]
    for shown, address in ways:
        answer = say(quiet, path, shown, address=address)
        assert answer.status in ({400, 404} if path in NOTE_PATHS else {502}), answer
        assert re.search(
            "could not be written|no current alert|within a year|no silence",
            json.loads(answer.body)["error"],
        )
    reader = say(quiet, path, {"x-forwarded-user": "carol", "origin": quiet.url}, address=PROXY)
    assert reader.status == 403


def test_who_is_an_operator_is_said_to_the_page(quiet: LockedAudit) -> None:
    session = quiet.ask("/session", headers=ours(quiet, OLGA)).body
    assert (
        session == b'{"user":"olga","by":"session","operator":true,"messages":["clicks*","remade"]}'
    )


def test_who_is_taken_out_of_the_file_only_reads(quiet: LockedAudit) -> None:
    olga = ours(quiet, OLGA)
    before = quiet.operators.read_text()
    try:
        quiet.operators.write_text("on-call\n")
        assert say(quiet, "/api/v1/accept", olga).status == 403
        assert quiet.ask("/api/v1/topics", headers=olga).status == 200
        quiet.operators.write_text("olga: everything\n")  # changes nothing
        assert say(quiet, "/api/v1/accept", olga).status == 403
        assert "cannot load changed operators, keeping the previous ones" in quiet.log()
    finally:
        quiet.operators.write_text(before)


ACCEPT: Final = "/api/v1/accept"
RETIRE: Final = "/api/v1/retire"


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        (ACCEPT, b"", "invalid body"),
        (ACCEPT, b"[" * 50_000, "invalid body"),
        (ACCEPT, b"x" * (MOST_BYTES + 1), "larger than"),
        (ACCEPT, {"topic": "t", "host": "h"}, "missing required field `reason`"),
        (ACCEPT, {"topic": "t", "host": "h", "reason": " "}, "$.reason"),
        (ACCEPT, {"topic": "t", "reason": "x"}, "give at least one of"),
        (ACCEPT, {"topic": "t", "host": "h", "reason": "x", "operator": "ada"}, "`operator`"),
        (ACCEPT, {"topic": "t", "offsets": [{"first": 0, "count": 1}], "reason": "x"}, "partition"),
        (ACCEPT, {"topic": "t", "runs": [{"source": "s"}], "reason": "x"}, "each run needs"),
        (ACCEPT, {"topic": "t", "partition": 0, "offsets": [{"first": -1, "count": 1}],
                  "reason": "x"}, "$.offsets"),
        (ACCEPT, {"topic": "t", "from_time": 2, "to_time": 2, "reason": "x"}, "must be before"),
        (ACCEPT, {"topic": "t", "host": "h", "reason": "x", "cluster": "other"}, "one of test"),
        (RETIRE, {"host": "h", "reason": "x"}, "`since`"),
        (RETIRE, {"host": "", "since": 0, "reason": "x"}, "$.host"),
        (RETIRE, {"host": "h", "since": 2**63, "reason": "x"}, "$.since"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_not_written(
    quiet: LockedAudit, path: str, body: object, why: str
) -> None:
    answer = say(quiet, path, bearer(OPERATORS_TOKEN), body=body)
    assert answer.status == 400
    assert why in json.loads(answer.body)["error"]


def test_a_form_of_another_kind_is_not_understood(quiet: LockedAudit) -> None:
    """What a page may send to another site without asking it."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        shown = {**bearer(OPERATORS_TOKEN), "content-type": kind}
        assert say(quiet, "/api/v1/accept", shown).status == 400
