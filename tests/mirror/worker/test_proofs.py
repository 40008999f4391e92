"""What a mirror states in `_audit` is proven, by one key, in a chain for each of its processes."""

from pathlib import Path

from client.connection.brokers import Brokers
from harness.penstock.broker import BrokerProcess
from harness.penstock.mirror import side
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from ledger.names import LEDGER_TOPIC
from tests.ledger.chains import Walked, key_in, walk_audit
from tests.mirror.logs import create, values, write
from tests.mirror.workers import Worker

KILLS = 3


def journals(brokers: Brokers) -> dict[str, Walked]:
    if LEDGER_TOPIC not in brokers.refresh(None).topics:
        return {}
    return walk_audit(brokers, wanted=lambda entry: entry["tier"] == "mirror")


def test_one_key_over_kills(  # noqa: PLR0917 - all are fixtures
    tmp_path: Path,
    source: BrokerProcess,
    target: BrokerProcess,
    there: Brokers,
    here: Brokers,
    new_topic: str,
) -> None:
    create(there, new_topic, values(0, 100))
    registry = RegistryProcess(
        tmp_path / "registry",
        brokers=target.bootstrap,
        settings={"topic": f"{new_topic}.schemas"},  # other tests copy _schemas to this broker
    )
    with registry:
        mirror = Worker(
            tmp_path / "mirror",
            source=side("dc1", [source.bootstrap]),
            target=side("offline", [target.bootstrap], registry=registry.url),
            settings={"topics": [new_topic], "interval": 0.5, "ledger_interval": 0.2},
        )
        before = journals(here).keys()
        for kill in range(KILLS):
            with mirror:
                write(there, new_topic, values(100 * (kill + 1), 100))
                wait_until(
                    lambda kill=kill: (
                        any(
                            entry["passages"]
                            for name, walked in journals(here).items()
                            if name not in before
                            for entry in walked.entries
                        )
                        and len(journals(here).keys() - before) > kill
                    ),
                    within=60,
                    what="the process has reported",
                )
                mirror.kill()
        walked = [each for name, each in journals(here).items() if name not in before]
    assert len(walked) == KILLS
    for each in walked:
        assert each.numbers == list(range(len(each.values)))
        assert each.proofs.keys() == each.values.keys()
        assert (each.keys, each.breaks) == ([key_in(tmp_path / "mirror" / "data")], [])
