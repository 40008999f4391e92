"""`--bootstrap`, read and refused."""

import pytest

from client.connection.addresses import Address, parse_addresses
from client.errors import BadAddress


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost", (Address("localhost", 9092),)),
        ("a:1,b:65535", (Address("a", 1), Address("b", 65_535))),
        (" a:1 , b ", (Address("a", 1), Address("b", 9092))),
        ("[::1]:9093,[fe80::1]", (Address("::1", 9093), Address("fe80::1", 9092))),
    ],
)
def test_addresses(text: str, addresses: tuple[Address, ...]) -> None:
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not an address"),
        ("a:1,", "is not an address"),
        (":9092", "is not an address"),
        ("kafka://a:9092", "write an IPv6 address"),
        ("a b:9092", "is not an address"),
        ("a:b", "'b' is not a port"),
        ("a:0", "'0' is not a port"),
        ("a:65536", "is not a port"),
        ("a:", "'' is not a port"),
        ("a:٣", "is not a port"),
        ("::1", r"write an IPv6 address as \[::1\]:9092"),
        ("a\n:1", "is not an address"),
    ],
)
def test_what_is_no_address(text: str, reason: str) -> None:
    with pytest.raises(BadAddress, match=reason):
        parse_addresses(text)


def test_an_address_is_shown_as_it_is_written() -> None:
    assert str(Address("a", 1)) == "a:1"
    assert str(Address("::1", 1)) == "[::1]:1"
