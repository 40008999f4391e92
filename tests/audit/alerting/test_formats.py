"""What each kind of receiver is sent, checked by the rules that it documents."""

import json
import re
import ssl
from collections.abc import Iterator
from contextlib import nullcontext
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
from audit.configuration.receivers import Receiver, ReceiverKind
from harness.logins.certificates import Authority
from harness.logins.made_secrets import made_secret
from harness.processes.server_process import free_ports
from tests.audit.alerting.alerts_made import HOSTILE, SEVEN, missing, notice
from tests.audit.alerting.listener import Listener

KEY = "0123456789abcdef0123456789abcdef"
RAISED = notice(missing(), lines=4_711, hosts=("web-3",))
EVIL = notice(missing(HOSTILE * 300), hosts=(HOSTILE * 9_000,) * 30)
PAYLOADS = [RAISED, RAISED.over(SEVEN + 60_000), EVIL]


def check_slack(post: dict[str, Any]) -> None:
    """https://docs.slack.dev/reference/block-kit/blocks"""
    texts = [post["text"]]
    for block in post["blocks"]:
        most = {"header": 150, "section": 3_000}[block["type"]]
        fields = block.get("fields", [])
        assert len(fields) <= 10
        assert all(1 <= len(each["text"]) <= 2_000 for each in fields)
        whole = [block["text"]] if "text" in block else []
        assert all(1 <= len(each["text"]) <= most for each in whole)
        for text in (*whole, *fields):
            assert text["type"] in {"plain_text", "mrkdwn"}
            if text["type"] == "mrkdwn":
                texts.append(re.sub(r"<https://[^<>|]+\|\w+>", "", text["text"]))
    assert not any(re.search("[<>]", each) for each in texts), texts


def check_pagerduty(post: dict[str, Any]) -> None:
    """https://developer.pagerduty.com/docs/send-alert-event"""
    assert post["target"] == "/hook"
    assert re.fullmatch("[0-9a-f]{32}", post["routing_key"])
    assert 1 <= len(post["dedup_key"]) <= 255
    assert len(json.dumps(post)) < 512_000
    if post["event_action"] != "resolve":
        assert post["event_action"] == "trigger"
        payload = post["payload"]
        assert 1 <= len(payload["summary"]) <= 1_024
        assert payload["source"]
        assert payload["severity"] in {"critical", "warning", "error", "info"}
        assert datetime.fromisoformat(payload["timestamp"]).tzinfo
        assert all(set(each) == {"href", "text"} for each in post["links"])


CHECKS = {ReceiverKind.SLACK: check_slack, ReceiverKind.PAGERDUTY: check_pagerduty}


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
    assert all(each in raised.replace(",", "") for each in ("4711", "web-3", RAISED.id))
    assert RAISED.id in over
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
    "{{ title }}": "output is not JSON",
    '"{% for i in range(90000) %}xx{% endfor %}"': "output is larger than 65,536 bytes",
    "{{ title.__class__.__mro__ | tojson }}": "unsafe",
    "{% if %}": "`template`",
}


@pytest.mark.parametrize(("text", "why"), TEMPLATES.items())
def test_templates(listener: Listener, tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "notice.j2"
    path.write_text(text)
    with pytest.raises(NotTold, match=why) if why else nullcontext():
        Sender(Receiver(url=listener.url, template=str(path))).send([EVIL])
    said = [(post["t"], post["n"], tuple(post["h"])) for post in listener.posts]
    assert said == ([] if why else [(EVIL.topic, -1, EVIL.hosts)])


class Mailbox(list[bytes]):
    """What an SMTP server accepted."""

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        self.append(envelope.content)
        return "250 queued" if len(self) < 4 else "550 spam"

    def authenticate(self, *about: Any) -> AuthResult:
        right = about[-1] == LoginPassword(b"penstock", made_secret("smtp").encode())
        return AuthResult(success=right, handled=False)


@pytest.mark.parametrize(("tls", "how"), [("starttls", "tls_context"), ("tls", "ssl_context")])
def test_mail_goes_to_a_real_server(tmp_path: Path, tls: str, how: str) -> None:
    authority, mailbox = Authority(tmp_path / "authority"), Mailbox()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.sign("smtp").both)
    (port,) = free_ports(1)
    check = {"authenticator": mailbox.authenticate, "auth_require_tls": tls == "starttls"}
    server = Controller(mailbox, "127.0.0.1", port, **check, **{how: context})  # type: ignore[arg-type]
    password = tmp_path / "password"
    password.write_text(made_secret("smtp"))
    settings = {
        "url": "mailto:ops@example.org,dev@example.org", "server": f"127.0.0.1:{port}", "tls": tls,
        "ca": str(authority.ca), "user": "penstock", "password_file": str(password),
    }  # fmt: skip

    def send(said: Notice, why: str = "", **more: str) -> None:
        sender = Sender(msgspec.convert(settings | more, Receiver))
        with pytest.raises(NotTold, match=why) if why else nullcontext():
            assert sender.send([said]) == f"accepted by 127.0.0.1:{port}"

    send(RAISED, "refused")
    server.start()
    try:
        for each in PAYLOADS:
            send(each)
        send(RAISED, "^SMTP 550$")
        send(RAISED, "ertificate", ca="")
        password.write_text("another")
        send(RAISED, "^SMTP 535$")
    finally:
        server.stop()
    raised, over, *_ = (message_from_bytes(e, policy=policy.default) for e in mailbox)
    assert raised["Subject"] == f"[penstock] {RAISED.title}"
    assert raised["To"] == "ops@example.org, dev@example.org"
    assert raised["References"] == over["References"]
    assert "Lines:     4,711\r\n" in raised.get_content()
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
        ("ftp://secret@host", "", "must begin with http"),
    ],
)
def test_a_url_says_what_listens_there(url: str, kind: str, why: str) -> None:
    if kind:
        assert Receiver(url=url).means == kind
        return
    with pytest.raises(ValueError, match=why) as error:
        Receiver(url=url)
    assert "secret" not in str(error.value)
