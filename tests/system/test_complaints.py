"""Whatever clients send how often, the log of a broker stays short, and says how often it was."""

import re
from pathlib import Path

from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess
from tests.system.raw import API_VERSIONS, RawConnection, int16, int32, int64, string

ADD_OFFSETS_TO_TXN = 25
MANY = 2000


def test_the_same_nonsense_again_and_again_is_counted(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path, zookeeper=f"{zookeeper.address}/complaints") as broker:
        for _ in range(MANY):
            with RawConnection(broker.bootstrap) as connection:
                connection.send(int32(-1))
                connection.wait_closed()
        body = string("t") + int64(1) + int16(0) + string("g")
        with RawConnection(broker.bootstrap) as connection:
            for _ in range(MANY):
                connection.ask(ADD_OFFSETS_TO_TXN, 0, body)
            assert connection.ask(API_VERSIONS, 0, b"")
        kinds = ("connection closed", "request refused")
        assert [broker.complaints(kind) for kind in kinds] == [MANY, MANY]
        broker.terminate()
        log = broker.log()
    for kind in kinds:
        lines = [line for line in log.splitlines() if kind in line]
        counts = [int(each) for line in lines for each in re.findall(r"again count=(\d+)", line)]
        # One at once, one a minute, and what was left when the broker stopped.
        assert len(lines) < 10, lines
        assert len(lines) - len(counts) + sum(counts) == MANY
