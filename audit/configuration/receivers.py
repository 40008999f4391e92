"""The configuration of a receiver, which is a service or mailbox that alerts are sent to.

Every key is explained at its field. Errors never quote a URL, a key or a password.
"""

import re
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from client.connection.addresses import parse_addresses
from client.errors import BadAddress
from ground.http.client import parse_url
from ground.network.listening import is_loopback
from ground.settings import FilePath, HostAndPort, Url

_ADDRESS: Final = re.compile(r"[^\s,;<>\"@]+@[^\s,;<>\"@]+")
_MOST_ADDRESSES: Final = 50


class ReceiverKind(StrEnum):
    SLACK = "slack"
    PAGERDUTY = "pagerduty"
    ALERTMANAGER = "alertmanager"
    MAIL = "mail"
    WEBHOOK = "webhook"


class Severity(StrEnum):
    """The severities of alerts, the most urgent first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class MailTls(StrEnum):
    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


class Receiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service or mailbox that alerts are sent to."""

    url: Url
    """Where to: a Slack incoming webhook, PagerDuty's `https://events.pagerduty.com/v2/enqueue`,
    Alertmanager's `http://host:9093/api/v2/alerts`, `mailto:ops@example.org`, or any other
    `https://` URL. With `url_file` it stands in a file."""
    kind: ReceiverKind | None = None
    """What listens there. Default: by the URL."""
    severities: tuple[Severity, ...] = ()
    """Only alerts of these severities. Default: all."""
    key: str = ""
    """PagerDuty's integration key. With `key_file` it stands in a file."""
    template: FilePath = ""
    """With a webhook: a Jinja template of the JSON to send. Default: the notice as it is."""
    server: HostAndPort = "127.0.0.1:25"
    """With `mailto:`: the SMTP server."""
    sender: str = ""
    """With `mailto:`: the sender's address. Default: the first recipient."""
    tls: MailTls | None = None
    """With `mailto:`: `starttls`, `tls` from the first byte, or `none`. Default: `starttls`, and
    `none` if the server is on this machine."""
    ca: FilePath = ""
    """With `mailto:`: CA certificates (PEM) that may sign the server's. Default: the system's."""
    user: str = ""
    """With `mailto:`: the user who logs in at the server."""
    password_file: FilePath = ""
    """With `mailto:`: the user's password. Reread for every message."""

    def __post_init__(self) -> None:
        if self.means is ReceiverKind.MAIL:
            self._check_mail()
            return
        try:
            parse_url(self.url)
        except ValueError as error:
            raise ValueError(f"`url`: {error}, or mailto:") from None
        if self.means is ReceiverKind.PAGERDUTY and not self.routing_key:
            raise ValueError(
                "PagerDuty needs an integration key: in `key_file`, or as ?routing_key=KEY in `url`"
            )
        if self.template and self.means is not ReceiverKind.WEBHOOK:
            raise ValueError(
                f"`template` is only for webhooks, but this receiver is for {self.means}"
            )

    def _check_mail(self) -> None:
        try:
            (_,) = parse_addresses(self.server)
        except (BadAddress, ValueError):
            raise ValueError("`server` must be one host:port") from None
        addresses = (*self.recipients, *([self.sender] if self.sender else ()))
        if not self.recipients or len(addresses) > _MOST_ADDRESSES:
            raise ValueError(f"`url` must name 1 to {_MOST_ADDRESSES} addresses after mailto:")
        if not all(address.isprintable() and _ADDRESS.fullmatch(address) for address in addresses):
            raise ValueError("`url` and `sender` must name addresses such as ops@example.org")
        if bool(self.user) != bool(self.password_file):
            raise ValueError("`user` and `password_file` must be given together")
        if self.user and self.mail_tls is MailTls.NONE and not self.is_local:
            raise ValueError("`tls: none` would send the password in the clear")

    @property
    def means(self) -> ReceiverKind:
        """The kind of the receiver, as configured or as derived from the URL."""
        return self.kind or _kind_of(self.url)

    @property
    def routing_key(self) -> str:
        """PagerDuty's key, from the file or from the URL's query."""
        query = parse_qs(urlsplit(self.url).query) if self.url.startswith("http") else {}
        return self.key or query.get("routing_key", [""])[0]

    @property
    def recipients(self) -> tuple[str, ...]:
        scheme, _, rest = self.url.partition(":")
        address_list = unquote(rest.partition("?")[0]) if scheme == "mailto" else ""
        return tuple(address.strip() for address in address_list.split(",") if address.strip())

    @property
    def is_local(self) -> bool:
        return is_loopback(self.server.rpartition(":")[0])

    @property
    def mail_tls(self) -> MailTls:
        return self.tls or (MailTls.NONE if self.is_local else MailTls.STARTTLS)


def _kind_of(url: str) -> ReceiverKind:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ReceiverKind.WEBHOOK
    if parts.scheme == "mailto":
        return ReceiverKind.MAIL
    if host in {"hooks.slack.com", "hooks.slack-gov.com"}:
        return ReceiverKind.SLACK
    if host in {"events.pagerduty.com", "events.eu.pagerduty.com"}:
        return ReceiverKind.PAGERDUTY
    if parts.path.endswith("/api/v2/alerts"):
        return ReceiverKind.ALERTMANAGER
    return ReceiverKind.WEBHOOK
