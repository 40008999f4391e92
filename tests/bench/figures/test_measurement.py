"""How samples become figures and verdicts."""

from pathlib import Path

import pytest

from bench.figures.measurement import CPU_PER_GB, PEAK_MEMORY, RATE, Goal, Outcome
from bench.figures.profile import Case, Profile, Results
from bench.figures.report import failures, markdown, verdicts
from bench.loads.steady_load import Latencies
from bench.profiles import PROFILES, Measured, measured_by, profiles_named

PAGES = Path(__file__).parents[3] / "docs" / "benchmarks"


@pytest.mark.parametrize(
    ("goal", "penstock", "peer", "met"),
    [
        (Goal(RATE, at_least=50_000), 50_000, None, True),
        (Goal(RATE, at_least=50_000), 49_999, 10, False),
        (Goal(PEAK_MEMORY, at_most=150), 151, 600, False),
        (Goal(RATE, ahead=True), 2, 1, True),
        (Goal(RATE, ahead=True), 1, 1, False),
        (Goal(RATE, ahead=True), 1, None, None),
        (Goal(RATE, ahead=True, times=2), 3, 1, True),
        (Goal(RATE, ahead=True, times=2), 2, 1, False),
        (Goal(CPU_PER_GB, ahead=True), 1, 2, True),
        (Goal(CPU_PER_GB, ahead=True), 2, 1, False),
        (Goal(CPU_PER_GB, at_most=0.2, ahead=True), 0.3, 0.4, False),
    ],
)
def test_a_goal_is_met_or_not_or_cannot_be_judged(
    goal: Goal, penstock: float, peer: float | None, met: bool | None
) -> None:
    assert goal.met(penstock, peer) is met


def test_a_quantile_is_a_latency_that_occurred() -> None:
    latencies = Latencies([n * 1_000_000 for n in range(1, 101)])
    assert latencies.milliseconds(0.5) == 50
    assert latencies.milliseconds(0.99) == 99
    assert latencies.milliseconds(0.999) == 100
    assert latencies.milliseconds(1) == 100


def _results() -> Results:
    goals = (Goal(RATE, at_least=100, ahead=True),)
    case = Case("fast", lambda _: {}, goals)
    other = Case("broken", lambda _: {}, goals)
    return Results(
        Profile("example", "an example of MB", (case, other)),
        (case, other),
        ("Penstock", "Apache Kafka"),
        {
            ("fast", "Penstock"): Outcome([{RATE: 300.0}, {RATE: 200.0}, {RATE: 250.0}]),
            ("fast", "Apache Kafka"): Outcome([{RATE: 100.0}, {RATE: 125.0}, {RATE: 130.0}]),
            ("broken", "Penstock"): Outcome(failure="it broke"),
            ("broken", "Apache Kafka"): Outcome([{RATE: 1.0}]),
        },
    )


def test_a_table_shows_medians_spreads_ratio_and_verdict() -> None:
    lines = markdown(_results()).splitlines()
    assert "An example of MB." in lines
    assert (
        "| fast | messages/s | 250 (200..300) | 125 (100..130) | 2.00 | ≥ 100, ahead: met |"
        in lines
    )
    assert "|  | Penstock failed | it broke |  |  |  |" in lines


def test_what_failed_is_counted_and_not_judged() -> None:
    assert verdicts([_results()]) == [True, None]
    assert failures([_results()]) == 1


def test_the_pages_name_every_profile() -> None:
    pages = "".join(path.read_text() for path in PAGES.glob("*.md"))
    assert [name for name in PROFILES if f"| `{name}` |" not in pages] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("agent", Measured.AGENTS),
        ("audit", Measured.AUDITS),
        ("cluster", Measured.CLUSTERS),
        ("loader", Measured.LOADERS),
        ("registry", Measured.REGISTRIES),
    ],
)
def test_a_name_stands_for_all_profiles_of_a_kind(name: str, kind: Measured) -> None:
    profiles = profiles_named(name)
    assert profiles == [each for each in PROFILES if measured_by(each) is kind]
    assert all(each == name or each.startswith(f"{name}-") for each in profiles)
    for profile in (*profiles, "loader-topics", "produce-1"):
        assert profiles_named(profile) == [profile]
    assert profiles_named("produce-2") == []
