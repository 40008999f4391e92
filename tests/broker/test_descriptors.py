"""How many files a broker may have open, and what may have how many of them."""

import pytest

from broker.errors import BrokerError
from broker.open_files import Descriptors


@pytest.mark.parametrize(
    ("most", "wanted", "connections"),
    [(524_288, 20_000, 20_000), (4_096, 20_000, 3_000), (4_096, 500, 500), (256, 20_000, 120)],
)
def test_what_is_left_by_connections_is_for_logs(most: int, wanted: int, connections: int) -> None:
    shares = Descriptors.of(most, wanted)
    assert shares.connections == connections
    kept = most - shares.connections - shares.log_files
    assert 50 < kept < 100
    assert shares.log_files >= 40


def test_a_limit_that_is_too_low_is_named() -> None:
    with pytest.raises(BrokerError, match=r"may have 100 files open, a broker needs 256 at least"):
        Descriptors.of(100, 20_000)
