"""`python -m bench.ledger_counting`: the cost of a broker's ledger, relative to the broker.

A broker with the default `ledger_interval` receives batches for its partitions in turn, at full
speed or at a rate. The processor times of the broker and of its counting process are read from
`/proc` over the same seconds, after the first entry, so the start of the process is excluded. The
ratio is the result: both processes handle the same batches.
"""

import argparse
import itertools
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.figures.machine import description
from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Batch, TopicPartition
from client.reading.offsets import End, start_offsets
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.made_batches import NOON, SOURCE, WINDOW, event
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from ledger.names import LEDGER_TOPIC
from wire.record_batches.records import Codec, Record, build_batch

PARTITIONS = 8
TOPIC = "load"
CHILD = b"broker.counting.process"


def agents_batches(chance: random.Random) -> list[bytes]:
    """Returns batches of 100 to 500 KB, as agents send them."""
    return [_agents(chance, chance.randrange(100_000, 500_000)) for _ in range(16)]


def foreign_batches(chance: random.Random) -> list[bytes]:
    """Returns batches of ten 200-byte messages, as from a client with little linger."""
    return [
        build_batch(
            [Record(number, NOON + number, None, chance.randbytes(200)) for number in range(10)]
        )
        for _ in range(64)
    ]


def small_agents_batches(chance: random.Random) -> list[bytes]:
    """Returns batches of 2 KB, as from a mostly idle agent."""
    return [_agents(chance, 2_000) for _ in range(64)]


LOADS = {
    "agent": (agents_batches, 20.0),
    "agent-fast": (agents_batches, None),
    "agent-small": (small_agents_batches, None),
    "foreign-small": (foreign_batches, None),
}


def _agents(chance: random.Random, size: int) -> bytes:
    records: list[Record] = []
    length = 0
    while length < size:
        number = len(records)
        value = event(NOON + number % WINDOW, number, source=SOURCE) + chance.randbytes(150)
        records.append(Record(number, NOON + number % WINDOW, None, value))
        length += len(value) + 10
    return build_batch(records, codec=Codec.ZSTD, base_timestamp=NOON)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.ledger_counting")
    parser.add_argument("loads", nargs="*", default=list(LOADS))
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for key, value in description(Path(directory)).items():
            print(f"{key}: {value}")
        for load in options.loads:
            measure(load, Path(directory) / load, options.seconds)


def measure(load: str, directory: Path, seconds: float) -> None:
    """Measures one load on a new broker."""
    with ExitStack() as ends:
        zookeeper = EmbeddedZooKeeper.start(directory / "zookeeper", port=0)
        ends.callback(zookeeper.stop)
        broker = BrokerProcess(
            directory / "broker",
            zookeeper=zookeeper.address,
            settings={"registry": "${BENCH_REGISTRY}"},
        )
        registry = RegistryProcess(directory / "registry", brokers=broker.bootstrap)
        broker.process.environment["BENCH_REGISTRY"] = registry.url
        ends.enter_context(broker)
        ends.enter_context(registry)
        brokers = ends.enter_context(Brokers(Bootstrap.of(broker.bootstrap)))
        create_topic(brokers, TOPIC, partitions=PARTITIONS)
        make_batches, rate = LOADS[load]
        batches = itertools.cycle(make_batches(random.Random(1)))
        with BatchProducer(brokers.bootstrap) as producer:
            warm_up_result = send(producer, TOPIC, batches, seconds=1.0, rate=1.0)
            wait_until(lambda: entries_written(brokers) > 0, within=60, what="the first entry")
            cpu_before, entries = processor_time(broker), entries_written(brokers)
            start_time = time.monotonic()
            size, count = send(producer, TOPIC, batches, seconds=seconds, rate=rate)
            time.sleep(11)  # the last batches are counted as well
            elapsed, cpu_after = time.monotonic() - start_time, processor_time(broker)
        broker_cpu, child_cpu = (
            end - start for end, start in zip(cpu_after, cpu_before, strict=True)
        )
        print(
            f"{load}: {size / 1e9:.2f} GB in {count:,} batches in {elapsed:.0f} s "
            f"(after {warm_up_result[1]} to begin with); broker {broker_cpu:.2f} CPU-s, "
            f"counting {child_cpu:.2f} CPU-s: {child_cpu / broker_cpu:.2%} of the broker's, "
            f"{child_cpu / elapsed:.3%} of a core; {entries_written(brokers) - entries} entries"
        )


def send(
    producer: BatchProducer,
    topic: str,
    batches: Iterator[bytes],
    *,
    seconds: float,
    rate: float | None,
) -> tuple[int, int]:
    """Sends for `seconds`, at `rate` MB/s if given; returns the bytes and batches sent."""
    begin_time = time.monotonic()
    size = count = 0
    while (elapsed := time.monotonic() - begin_time) < seconds:
        if rate is None or size < elapsed * rate * 1e6:
            data = next(batches)
            batch = Batch(TopicPartition(topic, count % PARTITIONS), data)
            if producer.submit(batch):
                size, count = size + len(data), count + 1
                continue
        producer.pump(0.005)
        producer.collect()
    while producer.outstanding:
        producer.pump(1.0)
        producer.collect()
    return size, count


def entries_written(brokers: Brokers) -> int:
    if LEDGER_TOPIC not in brokers.refresh(None).topics:
        return 0
    return sum(start_offsets(brokers, LEDGER_TOPIC, [0], End()).values())


def processor_time(broker: BrokerProcess) -> tuple[float, float]:
    """Returns the seconds that the broker and its counting process have used so far."""
    pid = broker.process.pid
    return _seconds_of(Path(f"/proc/{pid}")), _seconds_of(_child(pid))


def _child(parent: int) -> Path:
    for process in Path("/proc").glob("[0-9]*"):
        command = process / "cmdline"
        if CHILD in command.read_bytes() and int(_fields(process)[1]) == parent:
            return process
    raise LookupError("the broker has no counting process")


def _fields(process: Path) -> list[str]:
    return (process / "stat").read_text().rpartition(")")[2].split()


def _seconds_of(process: Path) -> float:
    """The seconds of all threads; finer than the ticks of `stat`."""
    times = ((task / "schedstat").read_text().split()[0] for task in (process / "task").iterdir())
    return sum(map(int, times)) / 1e9


if __name__ == "__main__":
    main()
