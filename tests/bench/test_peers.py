"""What the agent is measured beside: told the same, made once, and what arrives of their lines."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition

from bench.contents.log_files import first_line
from bench.contents.log_lines import block, json_line, plain_line
from bench.figures.profile import QUICK, CaseContext, ServerKind
from bench.peers import PEERS
from bench.peers.filebeat import FILEBEAT
from bench.peers.peer import Task
from bench.servers.brokers import PENSTOCK
from bench.servers.shippers import Running, shipper_of, shippers, shipping

_TASK = Task(Path("/home/of/it"), Path("/where/logs/are"), 9099, "bench-1")
# Debian's rsyslog, and what was made here by `make bench-peers`.
HERE = [name for name, peer in PEERS.items() if peer.why_not() is None]


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize(
    "told",
    [
        r"127\.0\.0\.1:9099",
        r"bench-1",
        r"/where/logs/are",
        r"acks\W*(all|-1)",
        r"compression\S*\W+(zstd|lz4)",
        r"linger\.ms\W+100|flush\.timeout: 100ms",
    ],
)
def test_all_peers_are_told_the_same(name: str, told: str) -> None:
    assert re.search(told, PEERS[name].configuration(_TASK))


def test_filebeat_sends_the_line_and_nothing_else() -> None:
    told = yaml.safe_load(FILEBEAT.configuration(_TASK))
    assert told["output.kafka"]["codec.format.string"] == "%{[message]}"
    assert told["path.data"] == "/home/of/it/state"


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerKind]]:
    with shippers(tmp_path_factory.mktemp("site"), HERE) as started:
        yield dict(started)


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_a_peer_delivers_every_line_as_it_is(
    kinds: dict[str, ServerKind], tmp_path: Path, name: str
) -> None:
    written = [
        first_line("one") + block(plain_line)[:200_000],
        first_line("two") + block(json_line)[:300_000],
    ]
    with kinds[name](tmp_path) as server:
        assert server.name == name != PENSTOCK
        with shipping(shipper_of(CaseContext(server, QUICK, tmp_path))) as running:
            for number, content in enumerate(written):
                (running.watched / f"{number}.log").write_bytes(content)
            lines = b"".join(written).splitlines()
            running.wait_for(len(lines))
            with (running.watched / "1.log").open("ab") as file:
                file.write(first_line("appended"))
            running.wait_for(len(lines) + 1)
            arrived = _consumed(running, len(lines) + 1)
    assert sorted(arrived) == sorted([*lines, first_line("appended")[:-1]])


def _consumed(running: Running, count: int) -> list[bytes]:
    """Without the line that had arrived to begin with."""
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{running.port}", "group.id": "peers"})
    consumer.assign([TopicPartition(running.topic, 0, running.shipped)])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(values)} of {count}"
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        values.append(value)
    consumer.close()
    return values
