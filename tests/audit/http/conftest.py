"""An audit whose cluster is not there: what it answers, it answers all the same."""

from collections.abc import Iterator

import pytest

from harness.audit_process import AuditProcess


@pytest.fixture(scope="package")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditProcess]:
    with AuditProcess(tmp_path_factory.mktemp("audit")) as audit:
        yield audit
