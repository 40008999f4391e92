"""Which agents are silent: told by how often each was heard until then."""

from contextlib import closing
from pathlib import Path

from audit.queries import AgentsQuery
from audit.store.fleet import SilencePatience
from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.store.said import BEGIN, CLUSTER, HOUR, MINUTE, TOPIC, body, entry

SILENT = 10 * MINUTE


def states(directory: Path, *, beats: int, apart: int, silence: int, window: int = MINUTE) -> str:
    """The state of an agent that was heard so often, so long apart, and then no more."""
    last = BEGIN + (beats - 1) * apart
    entries = [
        entry(
            "agent",
            "a1",
            number,
            BEGIN + number * apart,
            heartbeats=[{"until": last + HOUR, "topics": [TOPIC], "program_version": "1"}],
        )
        for number in range(beats)
    ]
    now = last + silence
    with (
        closing(AuditStore.open(directory, clock=lambda: now)) as store,
        closing(store.reading()) as reading,
    ):
        store.fold(CLUSTER, body(entries), LedgerPositions())
        found = reading.agents(AgentsQuery(), SilencePatience(now, SILENT, HOUR, window))
    (agent,) = found.items
    assert found.by_state[agent.state] == 1
    return agent.state


def test_an_agent_that_died_three_minutes_ago_is_silent(tmp_path: Path) -> None:
    assert states(tmp_path, beats=9, apart=MINUTE, silence=3 * MINUTE) == "silent"


def test_one_that_is_heard_once_a_window_is_not(tmp_path: Path) -> None:
    assert states(tmp_path, beats=9, apart=MINUTE, silence=2 * MINUTE) == "ok"


def test_one_that_speaks_seldom_is_given_time(tmp_path: Path) -> None:
    """Its `ledger_interval` is longer than a window."""
    assert states(tmp_path / "a", beats=9, apart=3 * MINUTE, silence=7 * MINUTE) == "ok"
    assert states(tmp_path / "b", beats=9, apart=3 * MINUTE, silence=SILENT) == "silent"


def test_nobody_is_given_more_time_than_is_configured(tmp_path: Path) -> None:
    assert states(tmp_path, beats=3, apart=HOUR // 2, silence=SILENT + 1) == "silent"


def test_alerts_do_not_mind_the_pace(tmp_path: Path) -> None:
    assert states(tmp_path, beats=9, apart=MINUTE, silence=9 * MINUTE, window=0) == "ok"
