"""The raw generators' requests and how they judge answers: against what other code reads."""

import struct

import pytest

from bench.loads.requests import (
    AnswerError,
    EqualRequests,
    end_offsets,
    fetched_records,
    produce_requests,
    record_batch,
)


@pytest.fixture
def requests() -> EqualRequests:
    return produce_requests("topic", 3, record_batch(1), 1)


def _answer(requests: EqualRequests, error: int = 0) -> bytes:
    body = struct.pack(">ii", 7, 1) + struct.pack(">h", 5) + b"topic"
    body += struct.pack(">iihqqqi", 1, 3, error, 4711, -1, 0, 0)
    return struct.pack(">i", len(body)) + body


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
