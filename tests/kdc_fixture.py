"""A realm of Kerberos: one for each process of a test run that asks for it."""

import importlib.util
from collections.abc import Iterator

import pytest

from harness.kdc import Kdc, why_no_kdc


def why_no_kerberos() -> str:
    """What is missing; empty if nothing is."""
    if importlib.util.find_spec("gssapi") is None:
        return "pip install 'penstock[kerberos]'"
    return why_no_kdc()


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """Tests have principals of their own; whoever stops it starts it again."""
    if why := why_no_kerberos():
        pytest.skip(f"no Kerberos: {why}")
    with Kdc(tmp_path_factory.mktemp("kdc")) as running:
        yield running


@pytest.fixture
def realm(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> Kdc:
    """The same, and this process and those that it starts are in it."""
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    return kdc
