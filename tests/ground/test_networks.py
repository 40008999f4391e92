"""Whom an address stands for."""

import pytest

from ground.networks import network_of


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
