"""Headers and frames around messages, and what may come out of bytes that are no request at all."""

import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.apis import APIS
from wire.errors import ProtocolError
from wire.framing.primitives import MessageBuffer
from wire.framing.requests import (
    has_tagged_header,
    read_body,
    read_client_id,
    read_header,
    read_response,
    request_frame,
    response_frame,
)
from wire.framing.slices import FileSlice
from wire.produce import read_request

apis = st.sampled_from(sorted(APIS))


@given(apis, st.data(), st.none() | st.text(max_size=50), st.integers(0, 2**31 - 1), st.binary())
def test_a_request_frame_is_read_back(
    key: int, data: st.DataObject, client_id: str | None, correlation_id: int, body: bytes
) -> None:
    api = APIS[key]
    version = data.draw(st.sampled_from(api.versions))
    frame = memoryview(request_frame(api, version, correlation_id, client_id, body))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    flexible = api.is_flexible(version)
    assert read_header(frame[4:]) == (key, version, correlation_id)
    assert read_client_id(frame[4:], flexible=flexible) == (client_id, memoryview(body))
    assert read_body(frame[4:], flexible=flexible) == body


class AFile:
    def fileno(self) -> int:
        return -1


def test_a_response_is_bytes_and_slices_in_their_order() -> None:
    body = MessageBuffer()
    body += b"before"
    body.slices.append((len(body), FileSlice(AFile(), 10, 1000)))
    body.slices.append((len(body), FileSlice(AFile(), 20, 2000)))
    body += b"after"
    head, before, first, second, after = response_frame(7, body, tagged_header=True)
    assert isinstance(first, FileSlice)
    assert isinstance(second, FileSlice)
    assert (first.position, second.position) == (10, 20)
    assert isinstance(head, bytes)
    assert head == struct.pack(">ii", 4 + 1 + 6 + 3000 + 5, 7) + b"\0"
    assert (before, after) == (b"before", b"after")


@given(st.integers(0, 2**31 - 1), st.booleans(), st.binary())
def test_a_response_frame_is_read_back(
    correlation_id: int, tagged_header: bool, content: bytes
) -> None:
    body = MessageBuffer()
    body += content
    parts = response_frame(correlation_id, body, tagged_header=tagged_header)
    frame = b"".join(part for part in parts if not isinstance(part, FileSlice))
    read = read_response(memoryview(frame)[4:], tagged_header=tagged_header)
    assert read == (correlation_id, memoryview(content))


def test_only_api_versions_never_has_tags_in_its_response_header() -> None:
    assert not has_tagged_header(APIS[18], 4)
    assert has_tagged_header(APIS[3], 9)
    assert not has_tagged_header(APIS[3], 8)


@given(apis, st.data(), st.binary(max_size=300))
def test_nothing_but_a_protocol_error_escapes_from_random_bytes(
    key: int, data: st.DataObject, body: bytes
) -> None:
    api = APIS[key]
    version = data.draw(st.sampled_from(api.versions))
    view = memoryview(body)
    readers: list[Callable[[], object]] = [
        lambda: api.decode_request(version, view),
        lambda: api.decode_response(version, view),
        lambda: read_client_id(view, flexible=api.is_flexible(version)),
        lambda: read_body(view, flexible=api.is_flexible(version)),
        lambda: read_request(max(3, min(version, 9)), view),
    ]
    for read in readers:
        with suppress(ProtocolError):
            read()


@pytest.mark.parametrize("count", [2**31 - 1, 100_001, -2, -(2**31)])
def test_absurd_counts_allocate_nothing(count: int) -> None:
    with pytest.raises(ProtocolError, match="array length"):
        APIS[3].decode_request(8, memoryview(struct.pack(">i", count) + b"\0" * 100))
    with pytest.raises(ProtocolError, match="array length"):
        read_request(7, memoryview(struct.pack(">hhii", -1, 1, 0, count) + b"\0" * 100))


@pytest.mark.not_quick("starts a process")
def test_the_first_request_of_an_api_loads_few_of_its_versions() -> None:
    """Each is a module, read from the disk while the broker serves nobody else."""
    code = """
import sys
from wire.messages.produce import API

assert len(API.versions) > 5
API.is_flexible(7)
print(sum(name.startswith("kio.schema.produce.v") and name.count(".") == 3 for name in sys.modules))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(ran.stdout) < 5
