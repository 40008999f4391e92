"""Audits whose cluster is not there: what they answer, they answer all the same."""

from collections.abc import Iterator

import pytest

from harness.penstock.audit import AuditProcess
from tests.audit.http.locked import LockedAudit


@pytest.fixture(scope="session")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditProcess]:
    with AuditProcess(tmp_path_factory.mktemp("audit")) as audit:
        yield audit


@pytest.fixture(scope="session")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedAudit]:
    """Where so little is refused that each has its line in the log."""
    with LockedAudit(tmp_path_factory.mktemp("quiet")) as audit:
        yield audit
