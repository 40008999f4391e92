"""Which troubles a seed stands for."""

from itertools import islice

from tests.cluster_pipeline.choosing import Beside, Then, Trouble, Verb, troubles_of

BROKERS = (1, 2, 3)


def first(seed: int, count: int = 300) -> list[Trouble]:
    return list(islice(troubles_of(seed, BROKERS), count))


def test_a_seed_is_always_the_same() -> None:
    assert first(7) == first(7)
    assert first(7) != first(8)


def test_brokers_take_turns() -> None:
    brokers = [each.broker for each in first(1)]
    for at in range(0, len(brokers), len(BROKERS)):
        assert sorted(brokers[at : at + len(BROKERS)]) == list(BROKERS)


def test_everything_happens() -> None:
    found = first(1)
    assert {each.verb for each in found} == set(Verb)
    assert {each.then for each in found} == set(Then)
    assert {each.beside for each in found} == set(Beside)
    assert any(each.at_once for each in found)


def test_who_is_back_at_once_was_killed_and_nobody_beside_it() -> None:
    for each in first(2):
        if each.at_once:
            assert (each.verb, each.beside) == (Verb.KILL, Beside.NOTHING)


def test_a_trouble_in_words() -> None:
    assert str(Trouble(Verb.KILL, 2, Then.ENOUGH, at_once=True)) == "kill 2 at once, then enough"
    beside = Trouble(Verb.FREEZE, 1, beside=Beside.WRITER)
    assert str(beside) == "freeze 1 beside writer, then whole"
