"""Whom an address stands for."""

import pytest

from ground.network.networks import NetworkRoom, network_of


@pytest.mark.parametrize(
    ("host", "stands_for"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("somewhere", "somewhere"),
    ],
)
def test_whom_an_address_stands_for(host: str, stands_for: str) -> None:
    assert network_of(host) == stands_for


def test_whoever_has_many_addresses_of_a_network_has_no_more_room() -> None:
    room = NetworkRoom(of_one=2, of_all=3)
    assert [room.begin(f"2001:db8::{number}") for number in range(4)] == [True, True, False, False]
    assert [room.begin(host) for host in ("1.2.3.4", "5.6.7.8")] == [True, False]
    room.end("2001:db8::ffff")
    assert room.begin("5.6.7.8")
