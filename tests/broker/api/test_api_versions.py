"""ApiVersions: the table that clients choose their versions by."""

import pytest

from broker.api.table import APIS
from tests.broker.api.running_broker import RawClient
from wire.errors import ErrorCode
from wire.messages import api_versions
from wire.messages.api_versions import ApiVersionsRequest

ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")


@pytest.mark.parametrize("version", api_versions.API.versions)
def test_the_table(client: RawClient, version: int) -> None:
    answer = client.ask(api_versions.API, version, ASK)
    assert answer.error_code is ErrorCode.none
    table = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert table.keys() == APIS.keys()
    assert table[0] == (0, 9)  # not from 3 on: librdkafka would not compress
    assert table[3] == (0, 12)
    assert table[23] == (2, 4)


@pytest.mark.parametrize("name", ["bad name", "-x", "x-", "ü", "a\nb"])
def test_software_names_are_kafkas(client: RawClient, name: str) -> None:
    asked = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    answer = client.ask(api_versions.API, 3, asked)
    assert answer.error_code is ErrorCode.invalid_request
    assert client.ask(api_versions.API, 3, ASK).error_code is ErrorCode.none
