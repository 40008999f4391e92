"""Which clocks are wrong, as the newest entries say."""

import pytest

from audit.alerting.conditions import AlertKey, of_clocks
from audit.clusters.clocks import Clocks
from tests.audit.store.said import BEGIN, CLUSTER, HOUR, MINUTE, body, entry

RIGHT, BEHIND = 2 * MINUTE, -3 * HOUR


@pytest.mark.parametrize(
    ("times", "ahead"),
    [
        ([RIGHT, -RIGHT], None),
        ([BEHIND], BEHIND),
        ([BEHIND, 0], None),  # it had waited for the brokers
        ([0, RIGHT + 1], RIGHT + 1),
        ([96_000], None),
    ],
)
def test_the_newest_entry_counts(times: list[int], ahead: int | None) -> None:
    clocks, host = Clocks(), (CLUSTER, "host-of-a")
    assert clocks.wrong(BEGIN) == {}
    assert clocks.is_unknown(host, BEGIN)
    entries = [entry("agent", "a", seq, BEGIN + time) for seq, time in enumerate(times)]
    clocks.note(CLUSTER, body([*entries, entry("agent", "b", 0, BEGIN)]), BEGIN)
    assert not clocks.is_unknown(host, BEGIN)
    assert clocks.wrong(BEGIN) == ({} if ahead is None else {host: ahead})
    is_kept = abs(times[-1]) > 96_000  # with an alert, until it is well below the limit
    assert clocks.wrong(BEGIN, {host}) == ({host: times[-1]} if is_kept else {})
    assert clocks.wrong(BEGIN + HOUR) == {}  # nothing has come since


def test_a_wrong_clock_is_an_alert_about_its_host() -> None:
    ((about, condition),) = of_clocks({(CLUSTER, "web-2"): BEHIND}).items()
    assert about == AlertKey("clock", CLUSTER, "", "web-2")
    assert (condition.words, condition.hosts) == ("the clock of web-2 is 3 h behind", ("web-2",))
