"""Telling somebody who listens, does not listen, or takes his time."""

import socket

import pytest
from msgspec.structs import replace

from audit.alerting.messages import AlertMessage
from audit.alerting.webhook import NotTold, Webhook, post
from harness.server_process import free_ports
from harness.waiting import wait_until
from tests.audit.alerting.listener import Listener

MESSAGE = AlertMessage(
    id="1",
    status="raised",
    kind="missing",
    cluster="east",
    topic="<b>",
    host="",
    words="w",
    raised=5,
)


def test_what_is_offered_is_told_once() -> None:
    with Listener() as listener:
        webhook = Webhook(listener.url)
        webhook.start()
        assert webhook.offer([MESSAGE])
        wait_until(lambda: bool(listener.posts), within=10, what="told")
        sent: list[AlertMessage] = []

        def is_known() -> bool:
            sent.extend(webhook.sent())
            return bool(sent)

        assert not webhook.offer([MESSAGE])  # first it is asked what was sent
        wait_until(is_known, within=10, what="known")
        assert sent == [MESSAGE]
        assert webhook.sent() == ()
        webhook.stop()
    (said,) = listener.posts
    assert said == {
        "target": "/hook?key=secret",
        "version": 1,
        "program": "penstock audit",
        "alerts": [
            {
                "id": "1",
                "status": "raised",
                "kind": "missing",
                "cluster": "east",
                "topic": "<b>",
                "host": "",
                "hour": -1,
                "words": "w",
                "raised": 5,
                "resolved": -1,
                "finding": "",
            }
        ],
    }


def test_who_does_not_take_it_is_told_again() -> None:
    with Listener() as listener:
        listener.status = 503
        webhook = Webhook(listener.url)
        webhook.start()
        webhook.offer([MESSAGE])
        wait_until(lambda: webhook.failed == 1, within=10, what="refused")
        assert webhook.sent() == ()
        listener.status = 200
        wait_until(lambda: bool(webhook.sent()), within=10, what="told")
        webhook.stop()
    assert listener.said == [("raised", "missing", "<b>")]


def test_what_is_refused_for_good_keeps_nothing_back() -> None:
    """One alert that is never taken, among others."""
    bad, good = replace(MESSAGE, id="bad"), replace(MESSAGE, id="good")
    with Listener() as listener:
        listener.refuses = b'"bad"'
        webhook = Webhook(listener.url, first_pause=0.001)
        webhook.start()
        webhook.offer([bad, good])
        wait_until(lambda: bool(webhook.sent()), within=20, what="gone on")
        webhook.stop()
    assert [each["id"] for post in listener.posts for each in post["alerts"]] == ["good"]
    assert listener.refused == 11, "ten times together, once alone"


def test_stopping_does_not_wait_for_anybody() -> None:
    (port,) = free_ports(1)
    webhook = Webhook(f"http://127.0.0.1:{port}/")
    webhook.start()
    webhook.offer([MESSAGE])
    wait_until(lambda: webhook.failed == 1, within=10, what="nobody there")
    webhook.stop()
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
