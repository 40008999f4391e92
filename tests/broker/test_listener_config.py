"""What a broker's listeners refuse to ask of clients."""

import msgspec
import pytest

from broker.listeners import ListenerConfig


@pytest.mark.parametrize(
    ("logins", "why"),
    [
        (["PLAIN"], "has secrets sent as they are: add `tls`"),
        (["SCRAM-SHA-512", "GSSAPI"], "Penstock's brokers take no tickets of Kerberos"),
    ],
)
def test_logins_that_cannot_be(logins: list[str], why: str) -> None:
    known = {"name": "LOCKED", "port": 9093}
    assert msgspec.convert({**known, "logins": ["SCRAM-SHA-512"]}, ListenerConfig).knows_everybody
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert({**known, "logins": logins}, ListenerConfig)
