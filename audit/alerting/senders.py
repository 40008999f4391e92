"""Sends notices to a receiver, by HTTP or mail, with a time limit.

Functions return the receiver's response in words. Errors never quote a URL, a key or a password.
"""

import smtplib
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from audit.alerting import formats
from audit.alerting.errors import NotTold, Refused
from audit.alerting.notices import Notice
from audit.configuration.receivers import MailTls, Receiver, ReceiverKind
from client.connection.addresses import parse_addresses
from ground.http.client import HttpClient, HttpError, parse_url
from ground.logins.secrets import NoSecret, Secret
from ground.printable import plain_words
from ground.tls.client import BadTls, Tls, client_context

_PATIENCE_S: Final = 10.0
_MOST_ANSWER: Final = 4 * 1024 * 1024
_SHOWN: Final = 200
_JSON: Final = {"Content-Type": "application/json"}
_REFUSED: Final = frozenset({400, 413, 415, 422})  # because of the content
_SMTP_REFUSED: Final = range(550, 560)


class Sender:
    """Sends notices to one receiver. `send` raises NotTold."""

    def __init__(self, receiver: Receiver, *, patience: float = _PATIENCE_S) -> None:
        """Raises NotTold if the template cannot be used."""
        self._receiver = receiver
        self._patience = patience
        path = receiver.template
        self._template = formats.JsonTemplate(Path(path)) if path else None

    @property
    def takes_all(self) -> bool:
        """Whether the receiver expects all current notices to be sent repeatedly."""
        return self._receiver.means is ReceiverKind.ALERTMANAGER

    def send(self, notices: Sequence[Notice]) -> str:
        """Sends notices: together if the receiver takes all of them, else one by one."""
        now = time.time_ns() // 1_000_000
        if self.takes_all:
            return self._post(formats.alertmanager(notices, now))
        answers = [self._send_one(notice, now) for notice in notices]
        return answers[-1] if answers else ""

    def _send_one(self, notice: Notice, now: int) -> str:
        match self._receiver.means:
            case ReceiverKind.SLACK:
                return self._post(formats.slack(notice))
            case ReceiverKind.PAGERDUTY:
                return self._post(formats.pagerduty(notice, self._receiver.routing_key))
            case ReceiverKind.MAIL:
                return self._mail(notice, now)
            case _:
                content = self._template.rendered(notice) if self._template else None
                return self._post(content or formats.webhook(notice))

    def _post(self, body: Any) -> str:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        url = self._receiver.url
        if self._receiver.means is ReceiverKind.PAGERDUTY:
            url = url.partition("?")[0]  # the key is in the event
        return post_json(url, content, patience=self._patience)

    def _mail(self, notice: Notice, now: int) -> str:
        receiver = self._receiver
        sender = receiver.sender or receiver.recipients[0]
        message = formats.mail(notice, sender=sender, recipients=receiver.recipients, now=now)
        ((host, port),) = parse_addresses(receiver.server)
        try:
            # Without `ca`, the system's certificates are trusted.
            context = client_context(Tls(ca=receiver.ca))
            with _connected(receiver.mail_tls, host, port, context, self._patience) as smtp:
                if receiver.user:
                    smtp.login(receiver.user, Secret(receiver.password_file).read())
                refused_recipients = smtp.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            code, words = next(iter(error.recipients.values()))
            raise _smtp_error(code, words) from None
        except smtplib.SMTPResponseException as error:
            raise _smtp_error(error.smtp_code, error.smtp_error) from None
        except (smtplib.SMTPException, NoSecret, BadTls) as error:
            raise NotTold(plain_words(str(error))[:_SHOWN]) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise NotTold(f"{receiver.server}: {reason}") from None
        return f"accepted by {receiver.server}" + (
            f"; refused for {len(refused_recipients)} recipients" if refused_recipients else ""
        )


def post_json(url: str, body: bytes, *, patience: float = _PATIENCE_S) -> str:
    """Posts JSON, and returns the response as plain text. Raises NotTold."""
    try:
        server = parse_url(url)
    except ValueError as error:
        raise NotTold(f"`url`: {error}") from None
    start = time.monotonic()
    target = f"?{server.query}" if server.query else ""
    try:
        with HttpClient(server, most_bytes=_MOST_ANSWER) as client:
            answer = client.ask("POST", target, body, within=patience, headers=_JSON)
    except HttpError as error:
        seconds = time.monotonic() - start
        raise NotTold(f"{error.why} (after {seconds:.1f} s)") from None
    text = plain_words(answer.body.decode(errors="replace"))
    for secret in (server.query, server.path.rstrip("/")):  # some servers quote the request
        text = text.replace(secret, "…") if secret else text
    text = text[:_SHOWN]
    if answer.status in _REFUSED:
        raise Refused(f"HTTP {answer.status}", text)
    if not 200 <= answer.status < 300:
        raise NotTold(f"HTTP {answer.status}", text)
    return f"HTTP {answer.status}{f': {text}' if text else ''}"


def _connected(
    tls: MailTls, host: str, port: int, context: ssl.SSLContext, patience: float
) -> smtplib.SMTP:
    if tls is MailTls.TLS:
        return smtplib.SMTP_SSL(host, port, timeout=patience, context=context)
    smtp = smtplib.SMTP(host, port, timeout=patience)
    try:
        if tls is MailTls.STARTTLS:
            smtp.starttls(context=context)
    except BaseException:
        smtp.close()
        raise
    return smtp


def _smtp_error(code: int, words: bytes | str) -> NotTold:
    text = words.decode(errors="replace") if isinstance(words, bytes) else words
    kind = Refused if code in _SMTP_REFUSED else NotTold
    return kind(f"SMTP {code}", plain_words(text)[:_SHOWN])
