"""Which troubles a seed stands for."""

from itertools import islice

from tests.mirror_pipeline.choosing import VERBS, Blow, Trouble, Verb, Victim, Who, troubles_of
from tests.mirror_pipeline.topology import victims

VICTIMS = victims()


def first(seed: int, count: int = 600) -> list[Trouble]:
    return list(islice(troubles_of(seed, VICTIMS), count))


def test_a_seed_is_always_the_same() -> None:
    assert first(7) == first(7)
    assert first(7) != first(8)


def test_everybody_can_be_in_trouble() -> None:
    assert {each.who for each in VICTIMS} == set(Who)
    places = {each.place for each in VICTIMS if each.who is Who.BROKER}
    assert places == {"dc1", "dc2", "offline"}
    assert len(set(VICTIMS)) == len(VICTIMS)


def test_they_take_turns() -> None:
    struck = [each.blows[0].victim for each in first(1)]
    for at in range(0, len(struck) - len(VICTIMS), len(VICTIMS)):
        assert sorted(struck[at : at + len(VICTIMS)]) == sorted(VICTIMS)


def test_everything_happens() -> None:
    found = first(1)
    blows = {(blow.victim.who, blow.verb) for each in found for blow in each.blows}
    assert blows == {(who, verb) for who, verbs in VERBS.items() for verb in verbs}
    assert {len(each.blows) for each in found} == {1, 2}
    assert {each.then_whole for each in found} == {True, False}


def test_nobody_is_struck_twice_at_once() -> None:
    for each in first(2):
        assert len({blow.victim.who for blow in each.blows}) == len(each.blows)


def test_a_trouble_in_words() -> None:
    broker, audit = Victim(Who.BROKER, "dc1", 2), Victim(Who.AUDIT)
    both = (Blow(Verb.KILL, broker), Blow(Verb.KILL, audit))
    assert str(Trouble(both, 2.04)) == "kill: broker dc1 2 and kill: audit, for 2.0 s"
    one = (Blow(Verb.CUT_SOURCE, Victim(Who.MIRROR, "dc1", 1)),)
    assert str(Trouble(one, 3, then_whole=False)) == (
        "cut from its source: mirror dc1 1, for 3.0 s, then the next"
    )
