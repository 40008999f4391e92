"""A healthy fleet: everything adds up, nothing is left to be asked, and little is kept of it."""

from pathlib import Path

import pytest

from audit.picture import TierKind
from audit.store.store import AuditStore
from bench.audit_fleet import HOUR, Fleet
from ledger.reading import LedgerPositions

BEGIN = 1_760_000_400_000
FLEET = Fleet(BEGIN, agents=60, topics=4, partitions=2)


@pytest.mark.not_quick("very many entries")
def test_all_of_it_adds_up(tmp_path: Path) -> None:
    store = AuditStore.open(tmp_path)
    reading = store.reading()
    for hour in range(2):
        for minute in range(hour * 60, hour * 60 + 60, 20):
            for each in range(minute, minute + 20):
                assert store.fold("local", FLEET.minute(each), LedgerPositions()).entries == 63
        touched = store.fold("local", FLEET.load(hour), LedgerPositions())
        assert {at for _, at in touched.hours} == {BEGIN + hour * HOUR}
        assert len(touched.hours) == 4
    end = BEGIN + 2 * HOUR
    for key in reading.topics():
        picture = reading.picture(key, BEGIN, end, end, expected_millis=HOUR)
        assert [tier.kind for tier in picture.tiers] == [
            TierKind.AGENT,
            TierKind.BROKER,
            TierKind.HDFS,
        ]
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
    kept = store.expire(end)
    assert kept == 0
    reading.close()
    store.close()
