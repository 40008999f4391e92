"""Two clusters of one broker each: what is copied, and where to."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess
from harness.mirror_process import MirrorProcess
from tests.mirror.workers import worker

NewWorker = Callable[..., MirrorProcess]


@pytest.fixture(scope="module")
def source(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    directory = tmp_path_factory.mktemp("source")
    with BrokerProcess(directory, zookeeper=address, settings={"ledger": False}) as broker:
        yield broker


@pytest.fixture(scope="module")
def target(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    directory = tmp_path_factory.mktemp("target")
    with BrokerProcess(directory, zookeeper=address, settings={"ledger": False}) as broker:
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
        made: list[MirrorProcess] = []

        def new(**settings: object) -> MirrorProcess:
            directory = tmp_path / f"mirror-{len(made)}"
            made.append(worker(directory, source, target, new_topic, **settings))  # type: ignore[arg-type]
            stack.callback(made[-1].kill)
            return made[-1]

        yield new


@pytest.fixture
def mirror(new_worker: NewWorker) -> MirrorProcess:
    """One of them."""
    return new_worker()
