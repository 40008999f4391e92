"""The bystander's judgement: a broker's standstill is told from a slow disk's."""

import pytest

from tests.system.bystander import Served


@pytest.mark.parametrize(
    ("longest", "disk", "is_standstill"),
    [
        (4.0, 0.01, False),
        (5.1, 0.01, True),
        (7.5, 1.0, False),
        (8.5, 1.0, True),
    ],
)
def test_what_the_disk_takes_is_allowed_for(
    longest: float, disk: float, is_standstill: bool
) -> None:
    served = Served(count=74, median=0.004, p99=longest, longest=longest, disk=disk)
    assert served.is_standstill == is_standstill


@pytest.mark.parametrize(("median", "disk"), [(1.1, 0.01), (2.9, 0.6)])
def test_so_it_is_where_everything_is_slow(median: float, disk: float) -> None:
    served = Served(count=9, median=median, p99=median, longest=median, disk=disk)
    assert served.is_standstill
