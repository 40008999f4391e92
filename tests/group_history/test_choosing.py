"""Seeds, and the scripts that they stand for."""

import pytest

from tests.cluster_history.script import BadScript
from tests.group_history.broken import FLAWS
from tests.group_history.choosing import script_of
from tests.group_history.script import ACTIONS, GROUPS, group_of, groups_of, parse

SEEDS = range(300)


def test_a_seed_is_always_the_same_script() -> None:
    assert [script_of(seed) for seed in range(20)] == [script_of(seed) for seed in range(20)]
    assert len({str(script_of(seed)) for seed in SEEDS}) == len(SEEDS)


def test_a_script_is_what_its_text_says() -> None:
    for seed in SEEDS:
        script = script_of(seed)
        assert parse(str(script)) == script


def test_all_actions_and_groups_are_chosen() -> None:
    scripts = [script_of(seed) for seed in SEEDS]
    assert {action.verb for script in scripts for action in script.actions} == ACTIONS.keys()
    assert {group for script in scripts for group in groups_of(script.actions)} == GROUPS.keys()


def test_only_groups_that_are_wanted() -> None:
    for seed in SEEDS:
        script = script_of(seed, groups=["eager", "paper"])
        named = {
            group_of(each.words[0])
            for each in script.actions
            if each.verb.endswith("-member") or each.verb in {"begin", "leave"}
        }
        assert named == {"eager", "paper"} == set(groups_of(script.actions))


@pytest.mark.parametrize("line", ["lose-power 1", "begin", "kill-coordinator raw eager"])
def test_what_is_no_action(line: str) -> None:
    with pytest.raises(BadScript):
        parse(line)


@pytest.mark.parametrize("name", FLAWS)
def test_the_scripts_of_broken_brokers(name: str) -> None:
    assert groups_of(FLAWS[name].parsed().actions) == ("raw",)
