"""Which agents are there, and which are silent; and a healthy fleet: everything adds up, nothing is
left to be asked, and little is kept of it."""

from pathlib import Path

import pytest

from audit.api.queries import AgentsQuery
from audit.clusters.clocks import Clocks
from audit.configuration.config import AlertsConfig, AuditConfig
from audit.store.fleet.agents import SilencePatience, patience
from bench.contents.audit_fleet import Fleet
from ledger.reading import LedgerPositions
from tests.audit.audited_ledger import AuditedLedger
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    TOPIC,
    Json,
    body,
    entry,
    passage,
    window,
)

FLEET = Fleet(BEGIN, agents=60, topics=4, partitions=2)
SILENT = 10 * MINUTE


@pytest.mark.parametrize(
    ("beats", "apart", "silence", "expected"),
    [
        pytest.param(9, MINUTE, 3 * MINUTE, "silent", id="it died three minutes ago"),
        pytest.param(9, MINUTE, 2 * MINUTE, "ok", id="it is heard once a window"),
        pytest.param(9, 3 * MINUTE, 7 * MINUTE, "ok", id="who speaks seldom has time"),
        pytest.param(9, 3 * MINUTE, SILENT, "silent", id="and not for ever"),
        pytest.param(3, HOUR // 2, SILENT + 1, "silent", id="no more than is configured"),
    ],
)
def test_an_agent_is_silent_by_how_often_it_was_heard(
    tmp_path: Path, beats: int, apart: int, silence: int, expected: str
) -> None:
    """So often, so long apart, and then no more. Alerts do not mind the pace."""
    last = BEGIN + (beats - 1) * apart
    beat = {"until": last + HOUR, "topics": [TOPIC], "program_version": "1"}
    now = last + silence
    with AuditedLedger(tmp_path, clock=now) as ledger:
        times = enumerate(range(BEGIN, last + 1, apart))
        ledger.fold(*(entry("agent", "a1", at, time, heartbeats=[beat]) for at, time in times))
        for window_millis, state in (
            (MINUTE, expected),
            (0, "ok" if silence <= SILENT else "silent"),
        ):
            patience = SilencePatience(now, SILENT, HOUR, window_millis)
            found = ledger.reading.agents(AgentsQuery(), patience)
            (agent,) = found.items
            assert (agent.state, found.by_state[agent.state]) == (state, 1)


@pytest.mark.parametrize(("by_pace", "window_millis"), [(True, 3 * MINUTE), (False, 0)])
def test_patience_is_as_configured(by_pace: bool, window_millis: int) -> None:
    config = AuditConfig(
        data_dir="audit", window=180, expected=7200, alerts=AlertsConfig(silent=600)
    )
    expected = SilencePatience(BEGIN, SILENT, 2 * HOUR, window_millis)
    assert patience(config, BEGIN, expected.clocks, by_pace=by_pace) == expected


@pytest.mark.parametrize(
    ("ahead", "lag", "state"),
    [(-HOUR, 3 * MINUTE, "ok"), (-HOUR, 3 * MINUTE + 1, "behind"), (HOUR, 0, "ok")],
)
def test_an_agent_whose_clock_is_wrong_is_heard_when_its_entries_come(
    tmp_path: Path, ahead: int, lag: int, state: str
) -> None:
    beat = {"until": BEGIN - lag, "topics": [TOPIC], "program_version": "1"}
    said, clocks, now = entry("agent", "a1", 0, BEGIN, heartbeats=[beat]), Clocks(), BEGIN - ahead
    clocks.note(CLUSTER, body([said]), now)
    with AuditedLedger(tmp_path, clock=now) as ledger:
        ledger.fold(said)
        for later, expected in ((2 * MINUTE, state), (3 * MINUTE, "silent")):
            patience = SilencePatience(now + later, SILENT, 2 * HOUR, MINUTE, clocks)
            (agent,) = ledger.reading.agents(AgentsQuery(), patience).items
            assert (agent.state, agent.heard) == (expected, now)


@pytest.mark.parametrize(
    ("directories", "begins", "replaced_by"),
    [
        (("/data", "/data"), MINUTE, "a2"),
        ((None, None), MINUTE, "a2"),
        (("/data", "/other"), MINUTE, ""),
        (("/data", "/data"), -MINUTE, ""),  # both ran at the same time
    ],
)
def test_a_silent_agent_whose_data_directory_has_another_was_replaced(
    tmp_path: Path, directories: tuple[str | None, ...], begins: int, replaced_by: str
) -> None:
    def said(agent: str, time: int, directory: str | None) -> Json:
        beat = {"until": time, "topics": [TOPIC], "program_version": "1"}
        disks = [{"label": directory, "free": 1, "total": 1}] if directory else []
        words = entry("agent", agent, 0, time, heartbeats=[beat], health=[{"disks": disks}])
        return words | {"header": words["header"] | {"host": "web-2"}}

    with AuditedLedger(tmp_path, clock=BEGIN + HOUR) as ledger:
        times = (BEGIN, BEGIN + begins)
        ledger.fold(*map(said, ("a1", "a2"), times, directories))
        patience = SilencePatience(BEGIN + SILENT + 1, SILENT, HOUR)
        found = {row.agent: row for row in ledger.reading.agents(AgentsQuery(), patience).items}
        assert (found["a1"].state, found["a1"].replaced_by) == ("silent", replaced_by)


def test_a_retired_host_that_is_heard_of_again_is_expected(ledger: AuditedLedger) -> None:
    def beat(seq: int, minute: int) -> Json:
        until = {"until": BEGIN + minute * MINUTE, "topics": [TOPIC]}
        return entry("agent", "a", seq, BEGIN + minute * MINUTE, heartbeats=[until])

    def required() -> list[int | None]:
        return [each.required_until for each in ledger.picture().agents]

    gone = {"host": "host-of-a", "agent": "", "since": BEGIN, "reason": "sold", "operator": ""}
    said = passage(0, 0, 1, [window(BEGIN, 1)])
    ledger.fold(entry("agent", "a", 0, BEGIN, passages=[said]), beat(1, 1))
    ledger.fold(entry("operator", "o", 0, BEGIN + 2 * MINUTE, retired=[gone]))
    assert required() == [BEGIN]
    ledger.fold(beat(2, 3))
    assert required() == [None]


@pytest.mark.not_quick("very many entries")
def test_all_of_a_healthy_fleet_adds_up(ledger: AuditedLedger) -> None:
    store, reading = ledger.store, ledger.reading
    for hour in range(2):
        for minute in range(hour * 60, hour * 60 + 60, 20):
            for each in range(minute, minute + 20):
                assert store.fold("local", FLEET.minute(each), LedgerPositions()).entries == 63
        touched = store.fold("local", FLEET.load(hour), LedgerPositions())
        assert {at for _, at in touched.hours} == {BEGIN + hour * HOUR}
        assert len(touched.hours) == 4
    end = BEGIN + 2 * HOUR
    for key in reading.topics():
        picture = ledger.picture(BEGIN, end, end, key=key, expected=HOUR)
        assert [tier.kind for tier in picture.tiers] == ["agent", "broker", "hdfs"]
        assert len(picture.windows) == 120
        assert all(len(set(window.sums.values())) == 1 for window in picture.windows)
        assert all(len(window.sums) == 3 for window in picture.windows)
        assert (picture.open, picture.sources, picture.holes) == ([], [], [])
        for partition in picture.partitions:
            assert len(set(partition.claimed.values())) == 1
            assert [len(each) for each in partition.claimed.values()] == [1, 1, 1]
        assert len(picture.agents) == 30
        assert min(agent.until for agent in picture.agents) == end - 60_000
        flow = reading.flow(key, BEGIN, end)
        assert flow.shipped == sum(
            window.sums[picture.tiers[0]].events for window in picture.windows
        )
    assert store.expire(end) == 0
