"""Formats notices for each kind of receiver: its documented JSON, or a mail. Pure.

Names from outside never become markup: Slack gets plain text, JSON is encoded, templates escape
every value, and mails are text. Lengths are limited as the receivers document.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from audit.alerting.errors import NotTold
from audit.alerting.notices import Notice

ALERTMANAGER_ENDS_MILLIS: Final = 5 * 60_000  # an alert ends this long after it was last sent
_MOST_TEMPLATE: Final = 64 * 1024  # bytes of a template, and of its output
_SLACK: Final = {"header": 150, "field": 2_000, "text": 3_000}
_PAGERDUTY_SUMMARY: Final = 1_024


def slack(notice: Notice) -> dict[str, Any]:
    """Makes a message for an incoming webhook. `text` is for notifications; only links are
    markup."""
    fields = [
        _plain(f"{name}: {value}", _SLACK["field"])
        for name, value in notice.facts()
        if name not in {"Page", "Runbook", "Command"}
    ]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(notice.title, _SLACK["header"])},
        {"type": "section", "fields": fields[:10]},
    ]
    text = "\n".join([*notice.words, *([f"Command: {notice.command}"] if notice.command else [])])
    if text:
        blocks.append({"type": "section", "text": _plain(text, _SLACK["text"])})
    links = [
        f"<{_escaped(url).replace('|', '%7C')}|{name}>"
        for name, url in (("Page", notice.page), ("Runbook", notice.runbook))
        if url
    ]
    if links:
        markup = {"type": "mrkdwn", "text": " · ".join(links)}
        blocks.append({"type": "section", "text": markup})
    return {"text": _escaped(_cut(notice.title, _SLACK["text"])), "blocks": blocks}


def _plain(text: str, most: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": _cut(text, most), "emoji": False}


def _escaped(text: str) -> str:
    """Escapes text for Slack's markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def pagerduty(notice: Notice, routing_key: str) -> dict[str, Any]:
    """Makes an event of the Events API v2."""
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "trigger" if notice.status == "raised" else "resolve",
        "dedup_key": f"penstock-{notice.id}",
    }
    if notice.status == "resolved":
        return event
    links = [
        {"href": url, "text": name}
        for name, url in (("Page", notice.page), ("Runbook", notice.runbook))
        if url
    ]
    return event | {
        "client": "Penstock",
        "client_url": notice.page,
        "links": links,
        "payload": {
            "summary": _cut(notice.summary, _PAGERDUTY_SUMMARY),
            "source": notice.hosts[0]
            if notice.hosts
            else notice.topic or notice.cluster or "audit",
            "severity": notice.severity.value,
            "timestamp": _iso(notice.since),
            "component": notice.topic,
            "group": notice.cluster,
            "class": notice.kind,
            "custom_details": dict(notice.facts()) | {"Details": "\n".join(notice.words)},
        },
    }


def alertmanager(notices: Iterable[Notice], now: int) -> list[dict[str, Any]]:
    """Makes alerts of Alertmanager's API v2. Alertmanager resolves them unless they are sent again
    in time."""
    alerts = []
    for notice in notices:
        labels = {
            "alertname": f"Penstock{notice.kind.capitalize()}",
            "severity": notice.severity.value,
            "cluster": notice.cluster,
            "topic": notice.topic,
            "penstock_alert": notice.id,
        }
        end_time = now + ALERTMANAGER_ENDS_MILLIS if notice.resolved < 0 else notice.resolved
        annotations = {
            "summary": notice.summary,
            "description": "\n".join(notice.words),
            "runbook_url": notice.runbook,
            **{name.lower(): value for name, value in notice.facts()},
        }
        alerts.append(
            {
                "labels": {name: value for name, value in labels.items() if value},
                "annotations": annotations,
                "startsAt": _iso(notice.since),
                "endsAt": _iso(end_time),
                "generatorURL": notice.page,
            }
        )
    return alerts


def mail(notice: Notice, *, sender: str, recipients: Iterable[str], now: int) -> EmailMessage:
    """Makes a mail. All mails about one problem share a reference, so that mail programs show them
    as a thread."""
    message = EmailMessage()
    message["Subject"] = f"[penstock] {_cut(notice.title, 200)}"
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Date"] = format_datetime(datetime.fromtimestamp(now / 1000, UTC))
    thread = f"<{notice.id}.{notice.since}@penstock>"
    message["Message-ID"] = f"<{notice.id}.{notice.since}.{notice.status}.{now}@penstock>"
    message["References"] = thread
    message["Auto-Submitted"] = "auto-generated"
    facts = [f"{name + ':':<10} {value}" for name, value in notice.facts()]
    message.set_content("\n".join([notice.title, "", *facts, "", *notice.words, ""]))
    return message


def webhook(notice: Notice) -> bytes:
    """Encodes the notice as JSON, with its title."""
    return msgspec.json.encode({"title": notice.title, **msgspec.to_builtins(notice)})


class JsonTemplate:
    """A Jinja template that renders JSON. Values are escaped for a JSON string, unless passed
    through `tojson`."""

    def __init__(self, path: Path) -> None:
        """Raises NotTold if the template cannot be read or parsed, or jinja2 is missing."""
        try:
            from jinja2 import StrictUndefined, TemplateError  # noqa: PLC0415
            from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415
            from markupsafe import Markup  # noqa: PLC0415
        except ModuleNotFoundError:
            raise NotTold("`template` needs the package jinja2: pip install jinja2") from None

        def escaped(value: object) -> object:
            if isinstance(value, Markup):  # from tojson
                return value
            return msgspec.json.encode(str(value)).decode()[1:-1]

        self._errors: tuple[type[Exception], ...] = (
            TemplateError,
            *(TypeError, ValueError, ArithmeticError, LookupError),
        )
        try:
            with path.open("rb") as file:
                text = file.read(_MOST_TEMPLATE + 1).decode()
            environment = ImmutableSandboxedEnvironment(finalize=escaped, undefined=StrictUndefined)
            self._template = environment.from_string(text)
        except OSError as error:
            raise NotTold(f"`template` {path}: {error.strerror}") from None
        except self._errors as error:
            raise NotTold(f"`template` {path}: {error}") from None
        if len(text) > _MOST_TEMPLATE:
            raise NotTold(f"`template` {path}: larger than {_MOST_TEMPLATE:,} bytes")

    def rendered(self, notice: Notice) -> bytes:
        """Renders a notice with the template. Raises NotTold."""
        values = msgspec.json.decode(webhook(notice))
        values["facts"] = dict(notice.facts())
        output = bytearray()
        try:
            for part in self._template.generate(values):
                output += part.encode()
                if len(output) > _MOST_TEMPLATE:
                    raise NotTold(f"the template's output is larger than {_MOST_TEMPLATE:,} bytes")
            msgspec.json.decode(bytes(output))
        except self._errors as error:
            raise NotTold(f"the template's output is not JSON: {error}") from None
        return bytes(output)


def _iso(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
