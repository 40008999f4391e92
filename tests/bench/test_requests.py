"""The raw generators' requests and how they judge answers: against what other code reads."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from bench.raw_producer import produce
from bench.requests import (
    MEGABYTE_BATCH,
    MESSAGE_SIZE,
    AnswerError,
    EqualRequests,
    end_offsets,
    fetched_records,
    fetches_in_vain,
    message,
    produce_requests,
    record_batch,
)
from wire.batch import check_batch
from wire.records import records


def test_batches_hold_what_they_say() -> None:
    batch = record_batch(50)
    assert check_batch(memoryview(batch)).record_count == 50
    values = [record.value for record in records(batch)]
    assert values == [message(number) for number in range(50)]
    assert {len(value or b"") for value in values} == {MESSAGE_SIZE}


def test_the_large_batch_is_a_megabyte() -> None:
    assert 990_000 < len(record_batch(MEGABYTE_BATCH)) <= 1_000_000


@pytest.fixture
def requests() -> EqualRequests:
    return produce_requests("topic", 3, record_batch(1), 1)


def _answer(requests: EqualRequests, error: int = 0) -> bytes:
    body = struct.pack(">ii", 7, 1) + struct.pack(">h", 5) + b"topic"
    body += struct.pack(">iihqqqi", 1, 3, error, 4711, -1, 0, 0)
    return struct.pack(">i", len(body)) + body


def test_a_cycle_repeats_one_request_with_growing_correlation_ids(
    requests: EqualRequests,
) -> None:
    size = requests.request_size
    assert len(requests.cycle) % size == 0
    first, second = requests.cycle[:size], requests.cycle[size : 2 * size]
    assert struct.unpack_from(">ihhi", first) == (size - 4, 0, 7, 0)
    assert struct.unpack_from(">ihhi", second) == (size - 4, 0, 7, 1)
    assert first[12:] == second[12:]


def test_whole_answers_are_counted(requests: EqualRequests) -> None:
    answer = _answer(requests)
    assert len(answer) == requests.answer_size
    assert requests.check(bytearray(answer * 3 + answer[:-1])) == 3


@pytest.mark.parametrize("error", [3, 6, 87, -1, 0x100])
def test_an_error_among_many_answers_is_found(requests: EqualRequests, error: int) -> None:
    answers = _answer(requests) * 5 + _answer(requests, error) + _answer(requests)
    with pytest.raises(AnswerError, match=f"error {error}$"):
        requests.check(bytearray(answers))


def test_an_answer_of_another_length_is_found(requests: EqualRequests) -> None:
    wrong = bytearray(_answer(requests))
    wrong[3] += 1
    with pytest.raises(AnswerError, match="length"):
        requests.check(bytearray(_answer(requests)) + wrong)


def _refused_fetch(requests: EqualRequests, error: int) -> bytes:
    body = struct.pack(">iihi", 0, 0, 0, 0) + struct.pack(">i", 1) + struct.pack(">h", 5) + b"one-1"
    body += struct.pack(">i", 1) + struct.pack(">ihqqqiii", 0, error, -1, -1, -1, 0, -1, 0)
    assert 4 + len(body) == requests.answer_size
    return struct.pack(">i", len(body)) + body


def test_fetches_in_vain_want_to_be_told_so() -> None:
    requests = fetches_in_vain(["one-1", "two-2"])
    assert len(requests.cycle) == 2 * requests.request_size
    assert requests.cycle.index(b"one-1") < requests.request_size < requests.cycle.index(b"two-2")
    unknown, unauthorized = _refused_fetch(requests, 3), _refused_fetch(requests, 29)
    assert requests.check(bytearray(unknown * 2)) == 2
    with pytest.raises(AnswerError, match=r"error 29$"):
        requests.check(bytearray(unknown + unauthorized))


def test_errors_of_other_answers_are_raised() -> None:
    topic = struct.pack(">h", 5) + b"topic"
    offsets = struct.pack(">ii", 0, 1) + topic
    offsets += struct.pack(">i", 2) + struct.pack(">ihqq", 0, 0, -1, 17)
    assert end_offsets(offsets + struct.pack(">ihqq", 1, 0, -1, 4)) == {
        ("topic", 0): 17,
        ("topic", 1): 4,
    }
    with pytest.raises(AnswerError, match="error 6"):
        end_offsets(offsets + struct.pack(">ihqq", 1, 6, -1, -1))
    fetched = struct.pack(">iihi", 0, 0, 0, 0) + struct.pack(">i", 1) + topic
    fetched += struct.pack(">i", 1)
    good = fetched + struct.pack(">ihqqqiii", 0, 0, 9, 9, 0, -1, -1, 3) + b"abc"
    assert bytes(fetched_records(memoryview(good), "topic")) == b"abc"
    bad = fetched + struct.pack(">ihqqqiii", 0, 1, -1, -1, -1, -1, -1, 0)
    with pytest.raises(AnswerError, match="error 1"):
        fetched_records(memoryview(bad), "topic")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Reads a little and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.recv(100)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_a_broker_that_hangs_up_ends_the_run(silent_port: int) -> None:
    with pytest.raises((AnswerError, OSError)):
        produce([silent_port], "topic", batch=1, acks=1, window=4, seconds=30)
