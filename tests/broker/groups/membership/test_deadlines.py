"""Deadlines against a plain dictionary of them."""

from hypothesis import given
from hypothesis import strategies as st

from broker.groups.membership.deadlines import Deadlines

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), st.integers(0, 100)),
        st.tuples(st.just("discard"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("take"), st.just(0), st.integers(0, 100)),
    ),
    max_size=60,
)


@given(STEPS)
def test_they_are_those_of_a_dictionary(steps: list[tuple[str, int, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    model: dict[int, int] = {}
    for what, key, at in steps:
        if what == "put":
            deadlines.put(key, at)
            model[key] = at
        elif what == "discard":
            deadlines.discard(key)
            model.pop(key, None)
        else:
            taken = deadlines.take(at)
            if taken is None:
                assert min(model.values(), default=101) > at
            else:
                assert model[taken] == min(model.values()) <= at
                del model[taken]
        assert deadlines.next_time() == min(model.values(), default=None)
        assert len(deadlines) == len(model)


def test_what_is_put_off_again_and_again_takes_no_more_room() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for turn in range(1_000):
        deadlines.put(turn % 10, 1000.0 - turn)
    for key in range(1_000, 20_000):
        deadlines.put(key, 5000.0)
        deadlines.discard(key)
    assert len(deadlines._heap) < 100
    assert len(deadlines) == 10
