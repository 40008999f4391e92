"""What an audit cannot be told."""

import pytest

from audit.configuration.config import (
    AlertsConfig,
    AuditConfig,
    MessageReaders,
    MessagesConfig,
    ProxyLogin,
)
from ground.tls.server import ClientCertificates, ListenerTls


@pytest.mark.parametrize(("window", "silent"), [(60, 30), (60, 119.9), (3600, 600)])
def test_an_idle_agent_is_not_silent(window: int, silent: float) -> None:
    with pytest.raises(ValueError, match=r"`alerts\.silent` must be at least two windows"):
        AuditConfig(data_dir="/d", window=window, alerts=AlertsConfig(silent=silent))
    AuditConfig(data_dir="/d", window=window, alerts=AlertsConfig(silent=2 * window))


def test_messages_are_shown_to_somebody() -> None:
    to_operators = MessagesConfig(topics=("clicks*",))
    with pytest.raises(ValueError, match="give `operators_file`"):
        AuditConfig(data_dir="/d", messages=to_operators)
    AuditConfig(data_dir="/d", messages=to_operators, tokens_file="/t", operators_file="/o")
    to_readers = MessagesConfig(topics=("*",), shown_to=MessageReaders.READERS)
    AuditConfig(data_dir="/d", messages=to_readers)
    topics = ("clicks", "clicks.dead", "web.clicks", "_audit")
    assert [to_operators.shows(each) for each in topics] == [True, True, False, False]
    assert [to_readers.shows(each) for each in topics] == [True, True, True, False]


TLS = ListenerTls(certificate="/c")
PROXY = ProxyLogin(header="X-Forwarded-User", addresses=("10.0.0.5",))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "no login is required"),
        ({"tls": TLS}, "no login is required"),
        ({"users_file": "/u"}, "sent unencrypted"),
        ({"tokens_file": "/t", "proxy": PROXY}, "sent unencrypted"),
    ],
)
def test_who_can_be_reached_has_locks_or_says_that_there_are_none(
    settings: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        AuditConfig(data_dir="/d", host="10.0.0.21", **settings)  # type: ignore[arg-type]
    AuditConfig(data_dir="/d", host="10.0.0.21", insecure=True, **settings)  # type: ignore[arg-type]
    AuditConfig(data_dir="/d", host="127.0.0.1", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"tls": TLS, "users_file": "/u"},
        {"tls": TLS, "tokens_file": "/t"},
        {"proxy": PROXY},
        {"tls": ListenerTls(certificate="/c", client_ca="/a")},
    ],
)
def test_locks_are_enough(settings: dict[str, object]) -> None:
    AuditConfig(data_dir="/d", host="10.0.0.21", **settings)  # type: ignore[arg-type]


def test_a_certificate_that_is_merely_asked_for_is_no_lock() -> None:
    asked = ListenerTls(
        certificate="/c", client_ca="/a", client_certificates=ClientCertificates.ASKED
    )
    with pytest.raises(ValueError, match="no login is required"):
        AuditConfig(data_dir="/d", host="10.0.0.21", tls=asked)


@pytest.mark.parametrize(
    ("header", "addresses", "why"),
    [
        ("Cookie", ("10.0.0.5",), "any client sends"),
        ("x: y", ("10.0.0.5",), "the name of a header"),
        ("X-User", (), "must contain"),
        ("X-User", ("proxy.example",), "is not an IP address"),
    ],
)
def test_a_proxy_is_named_by_address(header: str, addresses: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ProxyLogin(header=header, addresses=addresses)
