"""An ensemble of real ZooKeepers, of which one goes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_until
from harness.zookeepers import ZooKeepers

pytestmark = pytest.mark.long


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ZooKeepers]:
    zookeepers = ZooKeepers(tmp_path, 3)
    try:
        zookeepers.start()
        yield zookeepers
    finally:
        zookeepers.close()


def modes(zookeepers: ZooKeepers) -> list[str]:
    return sorted(each.mode or "gone" for each in zookeepers.servers)


def test_one_of_three_goes_and_the_others_go_on(three: ZooKeepers) -> None:
    assert modes(three) == ["follower", "follower", "leader"]
    assert three.whole
    three.kill("leader")
    assert three.serve
    assert not three.whole
    wait_until(lambda: modes(three) == ["follower", "gone", "leader"], within=60, what="one leads")
    three.start()
    assert modes(three) == ["follower", "follower", "leader"]
    three.kill("follower")
    three.freeze("leader")
    assert not three.serve
    three.thaw()
    assert three.serve
    three.kill()
    assert modes(three) == ["gone", "gone", "gone"]
