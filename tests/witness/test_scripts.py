"""Scripts come from seeds alone, are read back as they were written, and become short."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.witness.choosing import GROUP, KINDS, script_of
from tests.witness.script import PRIVATE, SHARED, Action, BadScript, Script, parse
from tests.witness.shrinking import shrink

SEEDS = range(1, 400)
KEPT: Final = sorted(Path(__file__).with_name("scripts").glob("*.script"))


def test_a_seed_is_always_the_same_script() -> None:
    assert [script_of(seed) for seed in SEEDS] == [script_of(seed) for seed in SEEDS]
    assert script_of(1) != script_of(2)


def test_seeds_of_a_group_share_their_events() -> None:
    assert len({script_of(seed).shared for seed in range(1, GROUP + 1)}) == 1
    assert len({script_of(seed).shared for seed in SEEDS}) > 5


def test_every_action_is_chosen_by_some_seed() -> None:
    chosen = {(each.verb, each.shared) for seed in SEEDS for each in script_of(seed).actions}
    of_cluster = {(verb, False) for verb in ("remove-replicas", "cut-replicas")}
    shared = ("wipe-broker", "kill-brokers", "start-brokers", "kill-others", "start-others")
    of_cluster |= {(verb, True) for verb in shared}
    every = {(verb, False) for verb in PRIVATE} | {(verb, True) for verb in SHARED}
    assert chosen == every - of_cluster
    clusters = [script_of(seed, cluster=True) for seed in SEEDS]
    assert {(each.verb, each.shared) for script in clusters for each in script.actions} == every


def test_of_all_replicas_one_at_least_is_whole_unless_all_brokers_are_dead() -> None:
    for seed in SEEDS:
        all_dead = False
        for each in script_of(seed, cluster=True).actions:
            if each.verb in {"kill-brokers", "start-brokers"}:
                all_dead = each.verb == "kill-brokers"
            assert all_dead or each.verb not in {"remove-replicas", "cut-replicas"}, seed


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_faults_can_be_asked_for_alone(kind: str) -> None:
    verbs = {each.verb for seed in SEEDS for each in script_of(seed, [kind]).actions}
    assert ("kill-agent" in verbs) == (kind == "agent")
    assert ("cut-tail" in verbs) == (kind == "broker")
    assert ("remove-landed" in verbs) == (kind == "loader")
    assert ("wipe-audit" in verbs) == (kind == "audit")
    assert ("replay" in verbs) == (kind == "others")


def test_a_script_is_read_as_it_was_written() -> None:
    for seed in SEEDS:
        for script in (script_of(seed), script_of(seed, cluster=True)):
            assert parse(str(script)) == script


def test_a_line_that_is_no_action_is_named() -> None:
    with pytest.raises(BadScript, match="line 3: 'rename' is no action"):
        parse("seed 1\ninput all\nrename\n")
    with pytest.raises(BadScript, match="'== write a 1'"):
        parse("== write a 1\n")


def test_scripts_that_are_kept_say_what_they_are_about_and_run_side_by_side() -> None:
    texts = [each.read_text() for each in KEPT]
    scripts = [parse(each) for each in texts]
    assert len(scripts) > 9
    assert all(each.startswith("# ") for each in texts)
    assert len({each.seed for each in scripts}) == len(scripts)
    assert len({each.shared for each in scripts}) == 6  # each of these is a batch


def test_what_has_nothing_to_do_with_it_is_left_out() -> None:
    needed = {"kill-agent", "delete", "start-agent"}
    script = next(
        each for each in map(script_of, SEEDS) if needed <= {one.verb for one in each.actions}
    )
    rounds = []

    def goes_wrong(candidates: Sequence[Script]) -> list[bool]:
        rounds.append(len(candidates))
        return [needed <= {one.verb for one in each.actions} for each in candidates]

    found = shrink(script, goes_wrong, lambda: True)
    assert {each.verb for each in found.actions} == needed
    assert len(found.actions) <= 4
    assert sum(rounds) > len(rounds)


def test_what_cannot_be_left_out_stays_and_time_is_kept() -> None:
    actions = (Action("write", ("a", "1")), Action("mark", shared=True), Action("settle"))
    script = Script(1, "all", False, actions)
    assert shrink(script, lambda found: [False] * len(found), lambda: True) == script
    assert shrink(script, lambda found: [False] * len(found), lambda: False) == script
