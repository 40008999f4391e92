"""What each kind of receiver is sent, checked by the rules that it documents."""

import json
import re
import ssl
from collections.abc import Callable, Iterator
from datetime import datetime
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from audit.alerting.errors import NotTold, Refused
from audit.alerting.notices import Notice
from audit.alerting.senders import Sender
from audit.receiver_config import Receiver, ReceiverKind
from harness.certificates import Authority
from harness.made_secrets import made_secret
from harness.server_process import free_ports
from tests.audit.alerting.alerts_made import HOSTILE, SEVEN, missing, notice
from tests.audit.alerting.listener import Listener

KEY = "0123456789abcdef0123456789abcdef"
RAISED = notice(missing(), lines=4_711, hosts=("web-3",))
EVIL = notice(missing(HOSTILE * 300), hosts=(HOSTILE * 9_000,) * 30)
PAYLOADS = [RAISED, RAISED.over(SEVEN + 60_000), EVIL]


def check_slack(post: dict[str, Any]) -> None:
    """https://docs.slack.dev/reference/block-kit/blocks"""
    assert set(post) == {"target", "text", "blocks"}
    assert 0 < len(post["blocks"]) <= 50
    texts = [post["text"]]
    for block in post["blocks"]:
        assert block["type"] in {"header", "section"}
        fields = block.get("fields", [])
        assert len(fields) <= 10
        assert all(1 <= len(each["text"]) <= 2_000 for each in fields)
        whole = [block["text"]] if "text" in block else []
        assert whole or fields
        for text in whole:
            assert 1 <= len(text["text"]) <= (150 if block["type"] == "header" else 3_000)
        for text in (*whole, *fields):
            if text["type"] == "mrkdwn":
                texts.append(re.sub(r"<https://[^<>|]+\|\w+>", "", text["text"]))
            else:
                assert text["type"] == "plain_text"
    assert not any(re.search("[<>]", each) for each in texts), texts


def check_pagerduty(post: dict[str, Any]) -> None:
    """https://developer.pagerduty.com/docs/send-alert-event"""
    assert post["target"] == "/hook"
    assert re.fullmatch("[0-9a-f]{32}", post["routing_key"])
    assert 1 <= len(post["dedup_key"]) <= 255
    assert len(json.dumps(post)) < 512_000
    if post["event_action"] == "resolve":
        return
    assert post["event_action"] == "trigger"
    payload = post["payload"]
    assert 1 <= len(payload["summary"]) <= 1_024
    assert payload["source"]
    assert payload["severity"] in {"critical", "warning", "error", "info"}
    assert datetime.fromisoformat(payload["timestamp"]).tzinfo
    assert all(set(each) == {"href", "text"} for each in post["links"])


def check_alertmanager(post: dict[str, Any]) -> None:
    """Its api/v2/openapi.yaml: `postableAlerts`."""
    for each in post["alerts"]:
        assert set(each) == {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}
        names = {*each["labels"], *each["annotations"]}
        assert all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) for name in names)
        assert all(each["labels"].values())
        starts, ends = (datetime.fromisoformat(each[name]) for name in ("startsAt", "endsAt"))
        assert starts < ends


def check_webhook(post: dict[str, Any]) -> None:
    assert {"title", "status", "severity", "lines", "hosts", "since", "command"} <= set(post)


CHECKS: dict[ReceiverKind, Callable[[dict[str, Any]], None]] = {
    ReceiverKind.SLACK: check_slack,
    ReceiverKind.PAGERDUTY: check_pagerduty,
    ReceiverKind.ALERTMANAGER: check_alertmanager,
    ReceiverKind.WEBHOOK: check_webhook,
}


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as opened:
        yield opened


@pytest.mark.parametrize("kind", CHECKS)
def test_what_is_sent_keeps_the_rules(listener: Listener, kind: ReceiverKind) -> None:
    sender = Sender(Receiver(url=listener.url, kind=kind, key=KEY))
    for each in PAYLOADS:
        answer = "…" if kind is ReceiverKind.PAGERDUTY else "…?…"
        assert sender.send([each]) == f"HTTP 200: {answer}"
        CHECKS[kind](listener.posts[-1])
    raised, over, _ = map(json.dumps, listener.posts)
    assert "4,711" in raised or "4711" in raised
    assert "web-3" in raised
    assert RAISED.id in raised
    assert RAISED.id in over or kind is ReceiverKind.SLACK
    listener.status = 403
    with pytest.raises(NotTold, match=r"^HTTP 403$") as failed:
        sender.send([RAISED])
    assert failed.value.answer == answer
    listener.refuses = b"{"
    with pytest.raises(Refused, match=r"^HTTP 400$"):
        sender.send([RAISED])


TEMPLATES = {
    '{"t": "{{ topic }}", "n": {{ lines }}, "h": {{ hosts | tojson }}}': "",
    '{"t": "{{ nothing }}"}': "'nothing' is undefined",
    "{{ title }}": "does not make JSON",
    '"{% for i in range(90000) %}xx{% endfor %}"': "makes more than 65,536 bytes",
    "{{ title.__class__.__mro__ | tojson }}": "unsafe",
    "{% if %}": "`template`",
}


@pytest.mark.parametrize(("text", "why"), TEMPLATES.items())
def test_templates(listener: Listener, tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "notice.j2"
    path.write_text(text)
    receiver = Receiver(url=listener.url, template=str(path))
    if why:
        with pytest.raises(NotTold, match=why):
            Sender(receiver).send([EVIL])
        assert not listener.posts
    else:
        Sender(receiver).send([EVIL])
        (post,) = listener.posts
        assert (post["t"], post["n"], post["h"]) == (EVIL.topic, -1, [*EVIL.hosts])


class Mailbox:
    """What an SMTP server accepted, but for one recipient."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []

    async def handle_RCPT(  # noqa: N802
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: Any
    ) -> str:
        if address.startswith("gone@"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        self.mails.append(envelope.content)
        return "250 queued"

    def authenticate(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _how: str, data: Any
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        right = (data.login, data.password) == (b"penstock", made_secret("smtp").encode())
        return AuthResult(success=right, handled=False)


@pytest.mark.parametrize("tls", ["starttls", "tls", "none"])
def test_mail_goes_to_a_real_server(tmp_path: Path, tls: str) -> None:
    authority = Authority(tmp_path / "authority")
    signed = authority.sign("smtp")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(signed.certificate, signed.key)
    mailbox = Mailbox()
    ways: dict[str, dict[str, Any]] = {
        "starttls": {"tls_context": context, "require_starttls": True},
        "tls": {"ssl_context": context},
        "none": {},
    }
    (port,) = free_ports(1)
    authenticates: dict[str, Any] = {"authenticator": mailbox.authenticate}
    if tls == "starttls":
        authenticates["auth_required"] = True
    elif tls == "tls":
        authenticates["auth_require_tls"] = False  # it does not know of the TLS below
    server = Controller(mailbox, "127.0.0.1", port, **authenticates, **ways[tls])
    password = tmp_path / "password"
    password.write_text(made_secret("smtp"))
    to = {"url": "mailto:ops@example.org,dev@example.org", "server": f"127.0.0.1:{port}"}
    login = {} if tls == "none" else {"user": "penstock", "password_file": str(password)}

    def send(said: Notice, **more: str) -> str:
        settings = {**to, **login, "tls": tls, "ca": str(authority.ca), **more}
        return Sender(msgspec.convert(settings, Receiver)).send([said])

    with pytest.raises(NotTold, match=r"127\.0\.0\.1"):
        send(RAISED)
    server.start()
    try:
        for each in PAYLOADS:
            assert send(each) == f"accepted by 127.0.0.1:{port}"
        with pytest.raises(Refused, match=r"^SMTP 550$"):
            send(RAISED, url="mailto:gone@example.org")
        if login:
            with pytest.raises(NotTold, match="ertificate"):
                send(RAISED, ca="")
            password.write_text("another")
            with pytest.raises(NotTold, match=r"^SMTP 535$"):
                send(RAISED)
    finally:
        server.stop()
    raised, over, _ = (message_from_bytes(e, policy=policy.default) for e in mailbox.mails)
    assert raised["Subject"] == f"[penstock] {RAISED.title}"
    assert raised["To"] == "ops@example.org, dev@example.org"
    assert raised["References"] == over["References"]
    text = raised.get_content()
    assert "Lines:     4,711\r\n" in text
    assert "Since:     2026-11-20 07:00:00 UTC\r\n" in text
    assert "Resolved:  2026-11-20 07:01:00 UTC, after 1 min\r\n" in over.get_content()


@pytest.mark.parametrize(
    ("url", "kind", "why"),
    [
        ("https://hooks.slack.com/services/T/B/x", "slack", ""),
        (f"https://events.pagerduty.com/v2/enqueue?routing_key={KEY}", "pagerduty", ""),
        ("https://events.eu.pagerduty.com/v2/enqueue", "", "PagerDuty needs an integration key"),
        ("http://127.0.0.1:9093/api/v2/alerts", "alertmanager", ""),
        ("https://chat.example.org/hooks/secret", "webhook", ""),
        ("mailto:me@example.org", "mail", ""),
        ("mailto:me@example.org%0aBcc:you@example.org", "", "must name addresses"),
        ("mailto:", "", "1 to 50 addresses"),
        ("ftp://secret@host", "", "begins with http"),
        ("http://[secret", "", "not a URL"),
    ],
)
def test_a_url_says_what_listens_there(url: str, kind: str, why: str) -> None:
    if kind:
        assert Receiver(url=url).means == kind
        return
    with pytest.raises(ValueError, match=why) as error:
        Receiver(url=url)
    assert "secret" not in str(error.value)
