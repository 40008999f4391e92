"""A registry behind TLS. The certificate is of no use elsewhere: everyone has its key."""

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import RegistryNotReachable
from schemas.registry_client import RegistryClient
from tests.schemas.answering import Answering, answering, says

CERTIFICATE = Path(__file__).parent / "localhost.pem"


@pytest.fixture
def server() -> Iterator[Answering]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with answering(says(["a"])) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        yield server


def test_a_certificate_of_the_system_is_believed(
    server: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with RegistryClient(server.url.replace("http:", "https:")) as registry:
        assert [registry.subjects() for _ in range(3)] == [["a"]] * 3
    assert len({each.connection for each in server.asked}) == 1


def test_any_other_is_refused_at_once(server: Answering) -> None:
    start = time.monotonic()
    with (
        RegistryClient(server.url.replace("http:", "https:"), patience_seconds=60) as registry,
        pytest.raises(RegistryNotReachable, match="its certificate: self-signed certificate"),
    ):
        registry.subjects()
    assert time.monotonic() - start < 40
    assert server.asked == []
