"""Seeds, and the scripts that they stand for."""

import pytest

from tests.cluster_history.script import BadScript
from tests.mirror_history.broken import FLAWS, SCRIPTS
from tests.mirror_history.choosing import GAPS, KINDS, script_of
from tests.mirror_history.script import ACTIONS, parse

SEEDS = range(300)
OF_KIND = {
    "mirrors": {"kill-mirror", "freeze-mirror", "stop-mirror"},
    "clusters": {"source-kill-leader", "target-lose-power", "source-kill-everywhere"},
    "links": {"cut-mirror", "slow-mirror", "cut-mirror-map"},
    "disks": {"fill-disk", "source-fail-syncs", "target-slow-syncs"},
    "clocks": {"source-clock", "target-clock", "mirror-clock"},
    "commands": {"pause-copy", "open-copy", "close-copy"},
    "gaps": set(GAPS),
}


def test_a_seed_is_always_the_same_script() -> None:
    assert [script_of(seed) for seed in range(20)] == [script_of(seed) for seed in range(20)]
    assert len({str(script_of(seed)) for seed in SEEDS}) == len(SEEDS)


def test_a_script_is_what_its_text_says() -> None:
    for seed in SEEDS:
        script = script_of(seed, brokers=1 + seed % 3)
        assert parse(str(script)) == script


def test_what_is_chosen() -> None:
    """Cutting single brokers from each other is for scripts by hand."""
    verbs = {action.verb for seed in SEEDS for action in script_of(seed).actions}
    by_hand = {"cut", "slow", "settle"}
    assert ACTIONS.keys() - verbs == {
        f"{side}-{verb}" for side in ("source", "target") for verb in by_hand
    }


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_wanted(kind: str) -> None:
    chosen = {action.verb for seed in SEEDS for action in script_of(seed, kinds=[kind]).actions}
    assert chosen >= OF_KIND[kind]
    others = set().union(*(verbs for name, verbs in OF_KIND.items() if name != kind))
    assert not chosen & others


def test_each_gap_comes_once_at_most() -> None:
    for seed in SEEDS:
        verbs = [each.verb for each in script_of(seed, scenes=9).actions]
        assert all(verbs.count(each) <= 1 for each in GAPS)


def test_links_are_cut_for_minutes_in_the_long_profile() -> None:
    def longest(*, long: bool) -> float:
        return max(
            float(each.words[0])
            for seed in SEEDS
            for each in script_of(seed, kinds=["links"], long=long).actions
            if each.verb == "pause"
        )

    assert longest(long=False) < 10
    assert longest(long=True) > 120


@pytest.mark.parametrize("line", ["kill 1", "source-wipe 1", "cut-mirror 1", "begin-mirror"])
def test_what_is_no_action(line: str) -> None:
    with pytest.raises(BadScript):
        parse(line)


def test_scripts_that_were_kept_can_be_read() -> None:
    kept = sorted(SCRIPTS.glob("*.script"))
    assert kept
    for path in kept:
        assert parse(path.read_text()).actions, path


@pytest.mark.parametrize("name", FLAWS)
def test_the_scripts_of_broken_mirrors(name: str) -> None:
    assert FLAWS[name].parsed().actions
