"""Somebody who may write to `_audit` writes in others' names: broker, registry, audit and commands
are real, and what the tiers have said is made up and signed."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from ground.signatures.keys import PublicKey, SigningKey
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from ledger.names import LEDGER_TOPIC
from ledger.proofs import HEADER, Chain
from ledger.publishing import Entry, partition_of, schema_id
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.audit.page.pipeline_said import Said, said_later
from tests.penstock.running import Ended, penstock

HOUR: Final = 3_600_000
PENDING: Final = 2
MISSING: Final = 1
COMPLETE: Final = 0


class SignedLedger:
    """Writes entries with the proofs of their journals, or of anybody."""

    def __init__(self, brokers: Brokers, registry: RegistryClient) -> None:
        self._producer = Producer(brokers, LEDGER_TOPIC)
        self._partitions = len(brokers.topic(LEDGER_TOPIC, create=True).partitions)
        self._encoder = Encoder(built_in(LEDGER), schema_id(registry))
        self._chains: dict[str, Chain] = {}

    def key_of(self, journal: str) -> PublicKey:
        return self._chain(journal).key.public

    def _chain(self, journal: str) -> Chain:
        return self._chains.setdefault(journal, Chain(SigningKey.new()))

    def write(self, *entries: Entry) -> None:
        """As the journals' owners."""
        for entry in entries:
            value = self._encoder.encode(entry)
            self._send(entry, self._chain(journal_of(entry)).prove(value, 0.0).encoded)

    def forge(self, entry: Entry) -> None:
        """Without a proof, signed by a thief, and with the proof of another entry."""
        value = self._encoder.encode(entry)
        self._send(entry, None)
        self._send(entry, Chain(SigningKey.new()).prove(value, 0.0).encoded)
        chain = self._chain(journal_of(entry))
        stolen = Chain(chain.key, chain.head).prove(value + b"other", 0.0)
        self._send(entry, stolen.encoded)

    def _send(self, entry: Entry, proof: bytes | None) -> None:
        partition = partition_of(journal_of(entry), self._partitions)
        headers = [] if proof is None else [(HEADER, proof)]
        self._producer.send(
            self._encoder.encode(entry), partition=partition, timestamp=1, headers=headers
        )
        self._producer.flush()


def journal_of(entry: Entry) -> str:
    return str(entry["header"]["source"])


@pytest.fixture
def ledger(
    running_broker: BrokerProcess, running_registry: RegistryProcess
) -> Iterator[SignedLedger]:
    with (
        Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers,
        RegistryClient(running_registry.url) as registry,
    ):
        yield SignedLedger(brokers, registry)


Audit = Callable[..., AuditProcess]


@pytest.fixture
def audit_of(
    tmp_path: Path, running_broker: BrokerProcess, running_registry: RegistryProcess
) -> Audit:
    def made(name: str, **settings: object) -> AuditProcess:
        where = {"brokers": running_broker.bootstrap, "registry": running_registry.url}
        return AuditProcess(tmp_path / name, settings={"grace": 0, **settings}, **where)

    return made


def reported(audit: AuditProcess, said: Said) -> Ended:
    begin = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(said.began / 1000))
    return penstock("report", said.topic, "--audit", audit.url, "--from", begin)


def faults_in(ended: Ended) -> list[str]:
    return [line for line in ended.stdout.splitlines() if line.startswith("✗ host-of-")]


def wait_for(audit: AuditProcess, said: Said, code: int) -> None:
    wait_until(
        lambda: reported(audit, said).returncode == code, within=90, what=f"the exit code {code}"
    )


def listed(audit: AuditProcess, topic: str) -> tuple[list[Any], list[Any]]:
    """The keys and faults of the topic's journals."""
    ended = penstock("audit", "keys", "--audit", audit.url, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    answer = json.loads(ended.stdout)
    journals = [row for row in answer["journals"] if topic in row["journal"]]
    return journals, [row for row in answer["faults"] if topic in row["journal"]]


def pipelines(topic: str) -> tuple[Said, Said]:
    """One whose agent is not done, and one in which the brokers lack events."""
    now = int(time.time() * 1000)
    began = (now - 3 * HOUR) // HOUR * HOUR
    done = now + HOUR
    waits = Said(f"{topic}-w", f"host-of-{topic}", "/var/log/a.log", began, until=began + HOUR)
    lacks = Said(f"{topic}-m", f"host-of-{topic}", "/b.log", began, missing=(120, 132), until=done)
    return waits, lacks


def forgeries(waits: Said, lacks: Said) -> list[Entry]:
    """What would hide that."""
    agent, broker, loader = (said_later(entry, 1) for entry in waits.entries())
    beat = waits.entries()[0]["heartbeats"][0] | {"until": waits.began + 10 * HOUR}
    everything = [
        said_later(entry, 1, passages=whole["passages"])
        for entry, whole in zip(
            lacks.entries(), lacks._replace(missing=(0, 0)).entries(), strict=True
        )
    ]
    accepted = {"topic": lacks.topic, "partition": -1, "reason": "nothing to see"}
    operators = said_later(
        broker | {"tier": "operator"}, 2, accepted=[accepted | {"to_time": None}]
    )
    return [agent | {"heartbeats": [beat]}, loader, *everything[1:], operators]


def test_what_is_written_in_others_names_hides_nothing(
    audit_of: Audit, ledger: SignedLedger, new_topic: str
) -> None:
    waits, lacks = pipelines(new_topic)
    with audit_of("audit") as audit:
        ledger.write(*waits.entries(), *lacks.entries())
        wait_for(audit, waits, PENDING)
        wait_for(audit, lacks, MISSING)
        before = faults_in(reported(audit, lacks))
        assert len(before) == 1
        forged = forgeries(waits, lacks)
        for entry in forged:
            ledger.forge(entry)
        journals = {journal_of(entry) for entry in forged}

        def named() -> set[tuple[str, str]]:
            return {(row["journal"], row["kind"]) for row in listed(audit, new_topic)[1]}

        everything = {(name, kind) for name in journals for kind in ("forged", "unknown key")}
        wait_until(lambda: named() == everything, within=90, what="each fault is named")
        hosts = {entry["header"]["source"]: entry["header"]["host"] for entry in forged}
        for row in listed(audit, new_topic)[1]:
            assert row["host"] == hosts[row["journal"]]
        assert reported(audit, waits).returncode == PENDING
        ended = reported(audit, lacks)
        assert (ended.returncode, faults_in(ended)) == (MISSING, before)
        # True statements that follow are believed without an operator's help.
        agent = waits._replace(until=waits.began + 10 * HOUR).entries()[0]
        ledger.write(said_later(agent, 1, heartbeats=agent["heartbeats"]))
        wait_for(audit, waits, COMPLETE)
        assert "signatures" in {row["kind"] for row in alerts(audit)}


def alerts(audit: AuditProcess) -> Sequence[Any]:
    answer = json.loads(audit.ask("/api/v1/alerts").body)
    return [*answer["items"], *answer["waiting"]]


def test_exported_keys_are_the_only_ones_that_count(
    tmp_path: Path, audit_of: Audit, ledger: SignedLedger, new_topic: str
) -> None:
    waits, lacks = pipelines(new_topic)
    ledger.write(*waits.entries(), *lacks.entries())
    folder = tmp_path / "keys"
    with audit_of("first") as audit:
        wait_for(audit, lacks, MISSING)
        ended = penstock("audit", "keys", "--audit", audit.url, "--export", str(folder))
        assert ended.returncode == 0
        assert "were trusted on first use" in ended.stderr
        journals, _ = listed(audit, new_topic)
        assert {row["journal"] for row in journals} == {
            f"{tier}-{said.topic}"
            for tier in ("agent", "broker", "loader")
            for said in (waits, lacks)
        }
        for row in journals:
            assert row["fingerprint"] == ledger.key_of(row["journal"]).fingerprint
    host = folder / lacks.host
    assert len(list(host.glob("agent-*.pub"))) == 2
    with audit_of("second", signatures={"keys_dir": str(folder), "require": True}) as audit:
        wait_for(audit, lacks, MISSING)
        wait_for(audit, waits, PENDING)
        # New journals of unknown keys, or without one, do not count: neither does what they accept.
        accepted = {"topic": lacks.topic, "partition": -1, "reason": "x", "to_time": None}
        broker = lacks.entries()[1]
        header = broker["header"] | {"source": f"operator-{new_topic}"}
        operator = said_later(broker | {"header": header, "tier": "operator"}, 0)
        ledger.forge(operator | {"accepted": [accepted]})
        wait_until(
            lambda: bool(listed(audit, new_topic)[1]), within=90, what="the unknown key is named"
        )
        faults = {(row["journal"], row["kind"]) for row in listed(audit, new_topic)[1]}
        assert (f"operator-{new_topic}", "unknown key") in faults
        assert reported(audit, lacks).returncode == MISSING
        # Until their key is enrolled.
        other = waits.entries()[0]
        later = waits._replace(until=waits.began + 10 * HOUR).entries()[0]
        ledger.write(said_later(other, 1, heartbeats=later["heartbeats"]))
        wait_for(audit, waits, COMPLETE)


def test_a_folder_that_cannot_be_read_ends_the_start(audit_of: Audit, tmp_path: Path) -> None:
    audit = audit_of("audit", signatures={"keys_dir": str(tmp_path / "none")})
    ended = penstock("audit", "--config", str(audit.config))
    assert ended.returncode == 1
    assert "`signatures.keys_dir`: " in ended.stderr.splitlines()[-1]
