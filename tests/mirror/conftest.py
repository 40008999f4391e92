"""Two clusters of one broker each: what is copied, and where to."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from tests.mirror.workers import Worker, worker

NewWorker = Callable[..., Worker]


@contextlib.contextmanager
def running_alone(directory: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[BrokerProcess]:
    """A broker with a map of its own. Who kills it starts it again."""
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    with BrokerProcess(directory, zookeeper=address, settings={"ledger": False}) as broker:
        yield broker


@pytest.fixture(scope="session")
def source(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    with running_alone(tmp_path_factory.mktemp("source"), zookeeper) as broker:
        yield broker


@pytest.fixture(scope="session")
def target(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    with running_alone(tmp_path_factory.mktemp("target"), zookeeper) as broker:
        yield broker


@pytest.fixture
def there(source: BrokerProcess) -> Iterator[Brokers]:
    """The source, by a client."""
    with Brokers(Bootstrap.of(source.bootstrap), patience_seconds=60) as brokers:
        yield brokers


@pytest.fixture
def here(target: BrokerProcess) -> Iterator[Brokers]:
    """The target, by a client."""
    with Brokers(Bootstrap.of(target.bootstrap), patience_seconds=60) as brokers:
        yield brokers


@pytest.fixture
def new_worker(
    tmp_path: Path, source: BrokerProcess, target: BrokerProcess, new_topic: str
) -> Iterator[NewWorker]:
    """Workers that copy topics which begin with `new_topic`; not started yet."""
    with contextlib.ExitStack() as stack:
        made: list[Worker] = []

        def new(**settings: object) -> Worker:
            directory, brokers = (
                tmp_path / f"mirror-{len(made)}",
                (source.bootstrap, target.bootstrap),
            )
            made.append(worker(directory, *brokers, f"{new_topic}*", **settings))  # type: ignore[arg-type]
            stack.callback(made[-1].kill)
            return made[-1]

        yield new


@pytest.fixture
def mirror(new_worker: NewWorker) -> Worker:
    """One of them."""
    return new_worker()


@pytest.fixture(scope="session")
def running_mirror(
    tmp_path_factory: pytest.TempPathFactory, source: BrokerProcess, target: BrokerProcess
) -> Iterator[Worker]:
    """One that runs all the time, for tests that do not kill it: it copies `shared_topic`."""
    directory, brokers = tmp_path_factory.mktemp("mirror"), (source.bootstrap, target.bootstrap)
    groups = {"interval": 0.5}
    with worker(directory, *brokers, "shared-*", name="shared", groups=groups) as mirror:
        yield mirror


@pytest.fixture
def shared_topic(new_topic: str) -> str:
    return f"shared-{new_topic}"
