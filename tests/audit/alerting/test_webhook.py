"""Telling somebody who listens, does not listen, or takes his time."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from audit.alerting.errors import NotTold
from audit.alerting.messages import AlertMessage
from audit.alerting.webhook import Webhook, post
from harness.server_process import free_ports
from harness.waiting import wait_until
from tests.audit.alerting.listener import Listener

FIELDS: dict[str, Any] = {"status": "raised", "kind": "missing", "cluster": "east", "topic": "<b>"}
MESSAGE = AlertMessage(id="1", host="", words="w", raised=5, **FIELDS)


@contextmanager
def started(url: str, **options: float) -> Iterator[Webhook]:
    webhook = Webhook(url, **options)
    webhook.start()
    yield webhook
    webhook.stop()


def test_what_is_offered_is_told_once() -> None:
    with Listener() as listener, started(listener.url) as webhook:
        assert webhook.offer([MESSAGE])
        wait_until(lambda: bool(listener.posts), what="told")
        assert not webhook.offer([MESSAGE])  # first it is asked what was sent
        assert list(wait_until(webhook.sent, what="known")) == [MESSAGE]
        assert webhook.sent() == ()
    (said,) = listener.posts
    assert said == {
        "target": "/hook?key=secret",
        "version": 1,
        "program": "penstock audit",
        "alerts": [
            FIELDS
            | {"id": "1", "host": "", "hour": -1, "words": "w", "finding": ""}
            | {"raised": 5, "resolved": -1}
        ],
    }


def test_who_does_not_take_it_is_told_again() -> None:
    with Listener() as listener, started(listener.url) as webhook:
        listener.status = 503
        webhook.offer([MESSAGE])
        wait_until(lambda: webhook.failed == 1, what="refused")
        assert webhook.sent() == ()
        listener.status = 200
        wait_until(lambda: bool(webhook.sent()), what="told")
    assert listener.said == [("raised", "missing", "<b>")]


def test_what_is_refused_for_good_keeps_nothing_back() -> None:
    """One alert that is never taken, among others."""
    bad, good = replace(MESSAGE, id="bad"), replace(MESSAGE, id="good")
    with Listener() as listener, started(listener.url, first_pause=0.001) as webhook:
        listener.refuses = b'"bad"'
        webhook.offer([bad, good])
        wait_until(lambda: bool(webhook.sent()), what="gone on")
    assert [each["id"] for post in listener.posts for each in post["alerts"]] == ["good"]
    assert listener.refused == 11, "ten times together, once alone"


def test_stopping_does_not_wait_for_anybody() -> None:
    (port,) = free_ports(1)
    with started(f"http://127.0.0.1:{port}/") as webhook:
        webhook.offer([MESSAGE])
        wait_until(lambda: webhook.failed == 1, what="nobody there")
    assert webhook.sent() == ()


@pytest.mark.parametrize(
    "url", ["", "ftp://host/", "http://", "http://[", "http://host:99999/", "http://h ost/\r\nX: y"]
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(NotTold):
        post(url, [MESSAGE], patience=1)


def test_the_url_is_not_said() -> None:
    (port,) = free_ports(1)
    with pytest.raises(NotTold) as error:
        post(f"http://127.0.0.1:{port}/hook?key=secret", [MESSAGE])
    assert "secret" not in str(error.value)


def test_who_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(NotTold, match=r"no answer within 0\.2 s"):
            post(url, [MESSAGE], patience=0.2)


def test_a_redirection_is_not_followed() -> None:
    with Listener() as listener:
        listener.status = 302
        with pytest.raises(NotTold, match="302"):
            post(listener.url, [MESSAGE])
