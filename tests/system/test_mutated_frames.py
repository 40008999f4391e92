"""Spoilt requests of all APIs, sent by the thousand: see `mutated_frames`.

HYPOTHESIS_PROFILE=fuzz sends a million, with a seed of the day; `make test` three thousand.
"""

import os
import random
import time
from pathlib import Path

import pytest

from broker.api.table import APIS
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from tests.system.bystander import Served
from tests.system.mutated_frames import campaign
from tests.system.mutating import CREATES, mutated, valid_requests
from wire.framing.requests import read_client_id, read_header

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
FRAMES = 1_000_000 if LONG else 3_000
SEED = time.time_ns() if LONG else 7


@pytest.mark.fuzz
@pytest.mark.slow
def test_no_frame_harms_a_broker(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    address = f"{zookeeper.address}/mutated"
    # Who joins is to wait for nobody.
    settings = {"groups": {"initial_rebalance_delay": 0}}
    with BrokerProcess(tmp_path, zookeeper=address, settings=settings) as broker:
        # The machine is shared: what is looked for here is standstill.
        found = campaign(broker, frames=FRAMES, seed=SEED, without=(), tolerated=1.0)
    print(found)
    assert not found.wrong, str(found)
    assert found.frames >= FRAMES


def test_what_is_spoilt_was_valid_before() -> None:
    """Every API and version is among them, and is read as what it was built from."""
    served = {(api.key, version) for api in APIS.values() for version in api.versions}
    valid = valid_requests(random.Random(1))
    seen = set()
    for _ in range(len(served)):
        frame = memoryview(next(valid))[4:]
        key, version, _ = read_header(frame)
        _, body = read_client_id(frame, flexible=APIS[key].is_flexible(version))
        APIS[key].decode_request(version, body)
        seen.add((key, version))
    assert seen == served


def test_apis_can_be_left_out_and_a_seed_repeats_what_was_sent() -> None:
    def first(count: int) -> list[bytes]:
        chance = random.Random(5)
        valid = valid_requests(chance, CREATES)
        return [mutated(chance, next(valid)) for _ in range(count)]

    creates = {api.key for api in APIS.values() if api.name in CREATES}
    valid = valid_requests(random.Random(5), CREATES)
    assert not creates & {int.from_bytes(next(valid)[4:6], "big") for _ in range(500)}
    assert first(300) == first(300)


# The bystander tells a broker's standstill from a slow disk's


@pytest.mark.parametrize(
    ("longest", "disk", "is_standstill"),
    [
        (4.0, 0.01, False),
        (5.1, 0.01, True),
        (7.5, 1.0, False),
        (8.5, 1.0, True),
    ],
)
def test_what_the_disk_takes_is_allowed_for(
    longest: float, disk: float, is_standstill: bool
) -> None:
    served = Served(count=74, median=0.004, p99=longest, longest=longest, disk=disk)
    assert served.is_standstill == is_standstill


@pytest.mark.parametrize(("median", "disk"), [(1.1, 0.01), (2.9, 0.6)])
def test_so_it_is_where_everything_is_slow(median: float, disk: float) -> None:
    served = Served(count=9, median=median, p99=median, longest=median, disk=disk)
    assert served.is_standstill
