"""What an audit cannot be told."""

import pytest

from audit.config import AlertsConfig, AuditConfig


@pytest.mark.parametrize(("window", "silent"), [(60, 30), (60, 119.9), (3600, 600)])
def test_an_idle_agent_is_not_silent(window: int, silent: float) -> None:
    with pytest.raises(ValueError, match=r"`alerts\.silent` must be two windows at least"):
        AuditConfig(data_dir="/d", window=window, alerts=AlertsConfig(silent=silent))
    AuditConfig(data_dir="/d", window=window, alerts=AlertsConfig(silent=2 * window))
