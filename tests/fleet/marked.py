"""What all tests that play on hosts have in common."""

import pytest

from harness.hosts.hosts import HostFailed, why_no_hosts
from tests.fleet.fleet import ansible_bin


def plays_on_hosts(seconds: int) -> list[pytest.MarkDecorator]:
    """For `pytestmark`; each test may take so long."""
    why = _why_not()
    return [
        pytest.mark.slow,
        pytest.mark.not_quick("it boots hosts"),
        pytest.mark.timeout(seconds),
        pytest.mark.skipif(bool(why), reason=why),
    ]


def _why_not() -> str:
    try:
        ansible_bin()
    except HostFailed as missing:
        return str(missing)
    return why_no_hosts()
