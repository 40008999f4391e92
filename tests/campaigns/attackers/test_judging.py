"""The judge of the campaign finds each rule that is broken, in runs that are wrong on purpose, and
in recorded ones.

Those in histories/ were played before loads compared digests of what agents have sent: a broker
that shows loads other batches under the same CRCs was believed.
"""

from pathlib import Path

import pytest

from tests.campaigns.attackers.campaign import read_end
from tests.campaigns.attackers.judging import (
    COLLISION,
    KINDS,
    Attack,
    End,
    Name,
    judge,
    tiers_of,
    totals,
)

HISTORIES = Path(__file__).parent / "histories"
FORGE = Attack(verb="forge", effective=True, source="s", seqs=(5, 9), offsets=(20, 24))
SPEAK = Attack(verb="speak", effective=True, host="web-1")
STEAL = Attack(verb="steal", effective=True, source="s", seqs=(5, 9), offsets=(20, 24))
SHOW = Attack(verb="show-altered", effective=True, source="s", seqs=(5, 9), offsets=(5, 9))
MISSING = Name(kind="missing", tier="hdfs", source="s", seqs=(8, 12))
FORGED = Name(kind="forged", tier="ledger", host="web-1")
ACCEPTED = Name(kind="missing", tier="hdfs", source="s", seqs=(1, 2), accepted=True)
LOAD = Name(kind="load", tier="hdfs", offsets=(6, 7))


def end(
    *rows: str, state: str = "complete", attack: Attack | None = None, names: tuple[Name, ...] = ()
) -> End:
    attacks = [] if attack is None else [attack]
    return End(lines=["a", "b"], rows=rows, state=state, names=names, attacks=attacks)


RUNS = {
    "nothing happened": (end("a", "b"), []),
    "a line is lost": (end("a"), ["green"]),
    "a line is altered": (end("a", "c"), ["green"]),
    "a line is there twice": (end("a", "b", "b"), ["green"]),
    "it waits": (end("a", "b", state="pending"), ["stuck"]),
    "it waits for a load that fails": (
        end(state="pending", attack=SHOW, names=(LOAD,)),
        [],
    ),
    "a load stands before it": (
        end(
            state="pending",
            attack=FORGE,
            names=(Name(kind="load", tier="hdfs", offsets=(6, 7)),),
        ),
        [],
    ),
    "a load stands behind it": (
        end(
            state="pending",
            attack=FORGE,
            names=(Name(kind="load", tier="hdfs", offsets=(40, 41)),),
        ),
        ["named"],
    ),
    "no attack": (end("a", "b", state="missing"), ["red"]),
    "not named": (end("a", "b", attack=FORGE), ["named"]),
    "named by another place": (
        end("a", "b", attack=FORGE, names=(Name(kind="missing", tier="hdfs", offsets=(24, 25)),)),
        ["named"],
    ),
    "named by another source": (
        end("a", "b", attack=FORGE, names=(Name(kind="missing", tier="hdfs", source="t"),)),
        ["named"],
    ),
    "a dead letter": (
        end("a", "b", attack=FORGE, names=(Name(kind=COLLISION, tier="hdfs", offsets=(21, 22)),)),
        [],
    ),
    "missing, and named": (end("a", attack=FORGE, names=(MISSING,), state="missing"), []),
    "missing, and shown as accepted": (end("a", names=(ACCEPTED,)), []),
    "missing, and another line is accepted": (end("b", names=(ACCEPTED,)), ["green"]),
    "another host's journal": (
        end("a", "b", attack=SPEAK, names=(Name(kind="forged", tier="ledger", host="web-2"),)),
        ["named"],
    ),
    "the host's journal": (end("a", "b", attack=SPEAK, names=(FORGED,)), []),
    "at another tier": (
        end(
            "a",
            attack=SHOW,
            state="changed",
            names=(Name(kind="changed", tier="broker", offsets=(5, 9)),),
        ),
        ["tier"],
    ),
    "the agent was stopped": (end("a", attack=STEAL, state="pending"), []),
    "a stolen batch": (end("a", "b", attack=STEAL), ["named"]),
}


@pytest.mark.parametrize("name", RUNS)
def test_each_rule_is_held(name: str) -> None:
    run, broken = RUNS[name]
    assert [objection.rule for objection in judge(run)] == broken


# What was recorded, and the rules that it breaks.
RECORDED = {
    "show-altered": ["green", "named"],
    "show-invented": ["green", "named"],
    "show-unstated": ["green", "named"],
    "store-alike": ["green", "named"],
    "show-reordered": ["named"],
    "show-restated": [],
    "store-overruled": [],
    "store-invented": [],
    "accept": [],
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_runs_are_judged(name: str) -> None:
    run = read_end(HISTORIES / f"{name}.json")
    assert [objection.rule for objection in judge(run)] == RECORDED[name]


def test_every_history_is_judged() -> None:
    assert {path.stem for path in HISTORIES.iterdir()} == set(RECORDED)


def test_totals_have_a_row_for_each_kind_of_attack() -> None:
    named = end("a", attack=FORGE, names=(MISSING,), state="missing")
    rows = {line.split()[0]: line.split() for line in totals([named, end("a", attack=SPEAK)])}
    assert rows.keys() == {"attack", *KINDS}
    assert rows["forge"] == ["forge", "1", "1", "1", "1", "hdfs;", "1", "missing"]
    assert rows["speak"] == ["speak", "1", "1", "0", "-;", "1", "complete"]
    assert tiers_of(named, FORGE) == {"hdfs"}
