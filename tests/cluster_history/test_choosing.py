"""Seeds, and the scripts that they stand for."""

import re
from pathlib import Path

import pytest

from tests.cluster_history.choosing import KINDS, script_of
from tests.cluster_history.script import ACTIONS, BadScript, parse

SCRIPTS = Path(__file__).with_name("scripts")
SEEDS = range(300)
OF_ENSEMBLE = re.compile("-(leading|following)-zookeeper")
OF_KIND = {
    "processes": {"freeze", "thaw", "stop"},
    "links": {"cut", "cut-one-way", "reset", "slow", "cut-clients"},
    "zookeeper": {"cut-map", "reset-map", "kill-zookeeper", "freeze-zookeeper"},
    "disks": {"lose-power", "wipe", "cut-tail", "fail-syncs", "slow-syncs"},
}


def test_a_seed_is_always_the_same_script() -> None:
    assert [script_of(seed) for seed in range(20)] == [script_of(seed) for seed in range(20)]
    assert len({str(script_of(seed)) for seed in SEEDS}) == len(SEEDS)


def test_a_script_is_what_its_text_says() -> None:
    for seed in SEEDS:
        script = script_of(seed, brokers=4, factor=2)
        assert parse(str(script)) == script


def test_all_actions_are_chosen() -> None:
    """Some are for several ZooKeepers, and one is for scripts by hand."""
    verbs = {action.verb for seed in SEEDS for action in script_of(seed).actions}
    several = {action.verb for seed in SEEDS for action in script_of(seed, zookeepers=3).actions}
    assert several == ACTIONS.keys() - {"until-deposed"}
    assert verbs == {each for each in several if not OF_ENSEMBLE.search(each)}


@pytest.mark.parametrize("kind", KINDS)
def test_only_faults_of_a_kind(kind: str) -> None:
    chosen = {action.verb for seed in SEEDS for action in script_of(seed, kinds=[kind]).actions}
    assert chosen >= OF_KIND[kind]
    others = set().union(*(verbs for name, verbs in OF_KIND.items() if name != kind))
    assert not chosen & others


def test_one_replica_never_loses_what_was_synced() -> None:
    verbs = {action.verb for seed in SEEDS for action in script_of(seed, factor=1).actions}
    assert not verbs & {"wipe", "cut-tail"}


def test_a_disk_loses_only_what_others_have() -> None:
    """All come into sync before, with nothing wrong since."""
    for seed in SEEDS:
        actions = script_of(seed).actions
        for at, action in enumerate(actions):
            if action.verb in {"wipe", "cut-tail"}:
                assert actions[at - 1].verb == "settle"


@pytest.mark.parametrize("text", ["explode 1", "kill", "kill 1 2", "cut 1"])
def test_what_is_no_action_is_refused(text: str) -> None:
    with pytest.raises(BadScript, match=r"line 2: .* is no action"):
        parse(f"seed 1\n{text}\n")


def test_scripts_that_were_kept_can_be_read() -> None:
    kept = sorted(SCRIPTS.glob("*.script"))
    assert kept
    for path in kept:
        assert parse(path.read_text()).actions, path


def test_comments_and_shapes() -> None:
    script = parse("seed 4\ncluster brokers=5 factor=2  # and in-sync as usual\n\nkill 5\n")
    assert (script.brokers, script.factor, script.in_sync) == (5, 2, 2)
    assert [str(each) for each in script.actions] == ["kill 5"]
