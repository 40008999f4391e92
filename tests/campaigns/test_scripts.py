"""Scripts of all campaigns come from seeds alone, are read back as they were written, and can be
made short."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.campaigns.__main__ import CAMPAIGNS, campaign
from tests.campaigns.mirror import script as of_mirror
from tests.campaigns.script import BadScript, Script
from tests.campaigns.shrinking import shrink

SEEDS: Final = range(1, 300)
# What only scripts by hand have.
BY_HAND: Final = {
    "cluster": {"until-deposed"},
    "mirror": {f"{side}-{verb}" for side in of_mirror.SIDES for verb in ("cut", "slow", "settle")},
}
# What makes every action possible.
MOST: Final = {
    "witness": ["--brokers", "3"],
    "cluster": ["--zookeepers", "3"],
    "pipeline": ["--minutes", "2"],
    "soak": ["--hours", "0.2"],
}


def options_of(name: str, *arguments: str) -> Namespace:
    parser = ArgumentParser()
    campaign(name).options(parser)
    return parser.parse_args(arguments)


def scripts_of(name: str, *arguments: str, seeds: Sequence[int] = SEEDS) -> list[Any]:
    options = options_of(name, *arguments)
    return [campaign(name).script_of(seed, options) for seed in seeds]


def verbs_of(scripts: Sequence[Script]) -> set[str]:
    return {("== " if a.shared else "") + a.verb for script in scripts for a in script.actions}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_seed_is_always_the_same_script_and_no_other(name: str) -> None:
    few = range(1, 20)
    assert scripts_of(name, seeds=few) == scripts_of(name, seeds=few)
    assert len({str(each) for each in scripts_of(name, seeds=few)}) == len(few)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_script_is_what_its_text_says(name: str) -> None:
    few = range(1, 40)
    for script in (*scripts_of(name, seeds=few), *scripts_of(name, *MOST.get(name, ()), seeds=few)):
        assert campaign(name).parse(str(script)) == script


@pytest.mark.parametrize("name", [each for each in CAMPAIGNS if each != "soak"])
def test_every_action_is_chosen_by_some_seed(name: str) -> None:
    seeds = range(9) if name == "pipeline" else SEEDS
    chosen = verbs_of(scripts_of(name, *MOST.get(name, ()), seeds=seeds))
    if name == "pipeline":
        chosen |= verbs_of(scripts_of(name, "--site", "mirrored", seeds=seeds))
    assert chosen == set(campaign(name).actions) - BY_HAND.get(name, set())


OF_KIND: Final = {
    "cluster": {
        "processes": {"freeze", "thaw", "stop"},
        "links": {"cut", "cut-one-way", "reset", "slow", "cut-clients"},
        "zookeeper": {"cut-map", "reset-map", "kill-zookeeper", "freeze-zookeeper"},
        "disks": {"lose-power", "wipe", "cut-tail", "fail-syncs", "slow-syncs"},
    },
    "mirror": {
        "mirrors": {"kill-mirror", "freeze-mirror", "stop-mirror"},
        "clusters": {"source-kill-leader", "target-lose-power", "source-kill-everywhere"},
        "links": {"cut-mirror", "slow-mirror", "cut-mirror-map"},
        "disks": {"fill-disk", "source-fail-syncs", "target-slow-syncs"},
        "clocks": {"source-clock", "target-clock", "mirror-clock"},
        "commands": {"pause-copy", "open-copy", "close-copy"},
        "gaps": set(of_mirror.GAPS),
    },
    "witness": {
        "agent": {"kill-agent"},
        "broker": {"cut-tail"},
        "loader": {"remove-landed"},
        "audit": {"== wipe-audit"},
        "others": {"replay"},
    },
}


@pytest.mark.parametrize(("name", "kind"), [(name, k) for name in OF_KIND for k in OF_KIND[name]])
def test_a_kind_of_faults_can_be_asked_for_alone(name: str, kind: str) -> None:
    chosen = verbs_of(scripts_of(name, "--only", kind))
    assert chosen >= OF_KIND[name][kind]
    others = set().union(*(verbs for other, verbs in OF_KIND[name].items() if other != kind))
    assert not chosen & others


@pytest.mark.parametrize(
    ("name", "line"),
    [
        *(("cluster", line) for line in ("explode 1", "kill", "kill 1 2", "cut 1")),
        *(("groups", line) for line in ("lose-power 1", "begin", "kill-coordinator raw eager")),
        *(("mirror", line) for line in ("kill 1", "source-wipe 1", "cut-mirror 1")),
        *(("witness", line) for line in ("rename", "== write a 1", "kill-broker")),
        *(("pipeline", line) for line in ("explode audit", "mend now")),
        ("restarts", "rename 2"),
        ("journal", "rotate 2"),
    ],
)
def test_a_line_that_is_no_action_is_named(name: str, line: str) -> None:
    with pytest.raises(BadScript, match=f"line 2: '{line}' is no action"):
        campaign(name).parse(f"seed 1\n{line}\n")


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_scripts_by_hand_can_be_read_and_say_what_they_are_about(name: str) -> None:
    kept = campaign(name).kept_scripts()
    for path in kept:
        assert path.read_text().startswith("# "), path
        assert campaign(name).parse(path.read_text()).actions, path
    assert kept or name in {"pipeline", "soak", "restarts"}
    for flaw in campaign(name).flaws:
        assert campaign(name).flaw_script(flaw).actions


def test_comments_and_shapes() -> None:
    text = "seed 4\ncluster brokers=5 factor=2  # and in-sync as usual\n\nkill 5\n"
    script = campaign("cluster").parse(text)
    assert (script.brokers, script.factor, script.in_sync) == (5, 2, 2)
    assert [str(each) for each in script.actions] == ["kill 5"]


# Making scripts short


def test_what_has_nothing_to_do_with_it_is_left_out() -> None:
    needed = {"kill-agent", "delete", "start-agent"}
    scripts = scripts_of("witness")
    script = next(each for each in scripts if needed <= {one.verb for one in each.actions})
    rounds = []

    def goes_wrong(candidates: Sequence[Script]) -> list[bool]:
        rounds.append(len(candidates))
        return [needed <= {one.verb for one in each.actions} for each in candidates]

    found = shrink(script, goes_wrong, lambda: True)
    assert {each.verb for each in found.actions} == needed
    assert len(found.actions) <= 4
    assert sum(rounds) > len(rounds)
