"""Kafka's primitive types, where the messages built of them do not show it."""

import pytest

from wire import primitives
from wire.primitives import Outgoing


@pytest.mark.parametrize("flexible", [False, True])
def test_what_is_sent_again_and_again_is_encoded_once(flexible: bool) -> None:
    encoded: list[int] = []
    read_number, write_number = primitives.read_int32, primitives.write_int32

    def write(out: Outgoing, value: int) -> None:
        encoded.append(value)
        write_number(out, value)

    _, write_array = primitives.array((read_number, write), flexible=flexible, nullable=False)
    plain, first, second = Outgoing(), Outgoing(), Outgoing()
    write_array(plain, (1, 2, 3))
    repeated = primitives.Repeated([1, 2, 3])
    write_array(first, repeated)
    write_array(second, repeated)
    assert first == second == plain
    assert encoded == [1, 2, 3] * 2
