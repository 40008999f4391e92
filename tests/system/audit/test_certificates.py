"""Certificates of complete hours: agent, broker, registry, audit and loader are real.

Signatures are checked here by `cryptography`'s primitives and by securesystemslib, not by our own
code."""

import base64
import gzip
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    load_der_public_key,
    load_pem_public_key,
)

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.processes.waiting import wait_until
from loader.config import CertificateMode, LoaderConfig
from loader.run.load import load
from loader.run.load_context import Compaction, LoadRequest
from loader.run.outcomes import TableOutcome
from loader.values.tables import Hour, hour_folder
from tests.loader.counted_stores import ROOT, CountedStore, OnlyStores
from tests.loader.loads import Listening, no_spark
from tests.penstock.running import Ended, penstock
from tests.system.audit.between_loader_and_audit import Change, proxy, unchanged
from tests.system.audit.pipeline import Pipeline

TOPIC: Final = "views"
HOST: Final = "web-1"
TYPE: Final = "application/vnd.in-toto+json"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Landed:
    """The table, and what its hour has."""

    def __init__(self, pipeline: Pipeline, directory: Path, topic: str = TOPIC) -> None:
        self.pipeline = pipeline
        self.topic = topic
        self.key = directory / "loader-key"
        self.hour = Hour(pipeline.began)
        self.written = 0

    @property
    def folder(self) -> Path:
        return self.pipeline.root / self.topic / hour_folder(self.hour)

    @property
    def config(self) -> LoaderConfig:
        return msgspec.structs.replace(self.pipeline.loader_config, signing_key=str(self.key))

    def write(self, count: int) -> None:
        """Writes lines of the hour, and waits until agent and broker are done with it, and the
        agent has signed what it has stated."""
        self.pipeline.write(HOST, self.topic, range(self.written, self.written + count))
        self.written += count

        def is_done() -> bool:
            topics = {topic.topic: topic for topic in self.pipeline.report().topics}
            tiers = topics[self.topic].tiers if self.topic in topics else []
            events = {each.tier: each.events for each in tiers}
            query = f"/api/v1/hour?cluster=test&topic={self.topic}&hour={self.hour}"
            is_complete = json.loads(self.pipeline.audit.ask(query).body)["complete"]
            told = [events.get(tier, 0) for tier in ("agent", "broker")]
            return is_complete and told == [self.written] * 2

        wait_until(is_done, what=f"agent and broker are done with {self.written} events")
        self.pipeline.wait_until_signed(HOST)

    def land(self, count: int) -> None:
        """Writes lines and loads them. The next load asks the audit about the hour."""
        self.write(count)
        assert self.load().rows == count
        assert not self.is_complete

    def load(self, request: LoadRequest | None = None, **config: Any) -> TableOutcome:
        loader_config = msgspec.structs.replace(self.config, **config)
        (outcome,) = load(loader_config, request or LoadRequest(), no_spark, Listening())
        assert outcome.error is None
        return outcome

    def load_through(
        self, change: Change, heads: Change = unchanged, **config: Any
    ) -> TableOutcome:
        """A load whose audit's answers to POST, and heads files, are changed."""
        with proxy(self.pipeline.audit.url, change, heads) as url:
            return self.load(audit=url, **config)

    def certificate(self) -> dict[str, Any]:
        """The statement in the hour's certificate, whose signatures are right."""
        return verified(
            self.folder / "_CERTIFICATE.json",
            self.pipeline.audit.data_dir / "signing-key.pub",
            self.key.with_suffix(".pub"),
        )

    def newest(self) -> dict[str, Any]:
        path = self.pipeline.root / "_penstock" / TOPIC / "newest_certificate.json"
        return verified(path, self.key.with_suffix(".pub"))

    @property
    def has_certificate(self) -> bool:
        return (self.folder / "_CERTIFICATE.json").exists()

    @property
    def is_complete(self) -> bool:
        return (self.folder / "_SUCCESS").exists()

    def assert_files_are(self, certificate: dict[str, Any]) -> None:
        files = {
            f"{hour_folder(self.hour)}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.folder.iterdir()
            if not path.name.startswith("_")
        }
        assert files == {each["name"]: each["digest"]["sha256"] for each in certificate["subject"]}

    def heads(self, hour: dict[str, Any]) -> dict[str, Any]:
        """The heads file of an hour's predicate, which has the certified digest."""
        content = (self.pipeline.root / hour["heads"]["path"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == hour["heads"]["sha256"]
        document: dict[str, Any] = json.loads(content)
        return document

    def assert_heads_are_of(self, hour: dict[str, Any], hosts: set[str]) -> None:
        """These hosts have signed that nothing before the end of the hour is missing."""
        named = hour["heads"]
        assert (named["cluster"], named["topic"]) == ("test", self.topic)
        assert named["agents"] == len(hosts)
        heads = self.heads(hour)["heads"]
        assert {head["host"] for head in heads} == hosts
        for head in heads:
            assert head["until"] >= hour_end(hour["hour"])
            key = load_der_public_key(base64.b64decode(head["key"]))
            assert isinstance(key, Ed25519PublicKey)
            proof, value = base64.b64decode(head["proof"]), base64.b64decode(head["value"])
            digest = hashlib.sha256(proof[1:33] + hashlib.sha256(value).digest()).digest()
            key.verify(proof[33:97], b"penstock ledger entry 1\0" + digest)


def hour_end(hour: str) -> str:
    return (datetime.fromisoformat(hour) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def verified(path: Path, *keys: Path) -> dict[str, Any]:
    """The statement in an envelope that the owners of these keys have signed, and nobody else."""
    envelope = json.loads(path.read_bytes())
    assert envelope["payloadType"] == TYPE
    payload = base64.b64decode(envelope["payload"], validate=True)
    signed = b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload)
    signatures = {each["keyid"]: base64.b64decode(each["sig"]) for each in envelope["signatures"]}
    for key_path in keys:
        key = load_pem_public_key(key_path.read_bytes())
        assert isinstance(key, Ed25519PublicKey)
        key.verify(signatures.pop(_fingerprint(key_path)), signed)
    assert not signatures
    statement: dict[str, Any] = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    return statement


def _fingerprint(key_path: Path) -> str:
    """The SHA-256 of the DER in a file of PEM."""
    body = key_path.read_text().split("-----")[2]
    return hashlib.sha256(base64.b64decode(body)).hexdigest()


def digest_of(certificate: dict[str, Any]) -> str:
    payload = json.dumps(certificate, separators=(",", ":"), ensure_ascii=False).encode()
    return hashlib.sha256(payload).hexdigest()


@pytest.fixture
def landed(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Landed]:
    chroot = f"{zookeeper.address}/{tmp_path.name}-{os.getpid()}"
    with Pipeline(tmp_path, chroot, None, [TOPIC]) as pipeline:
        pipeline.agent(HOST, [TOPIC])
        yield Landed(pipeline, tmp_path)


def test_an_hour_its_late_rows_and_its_compaction(landed: Landed) -> None:
    landed.land(300)
    outcome = landed.load()
    assert (outcome.complete[:1], outcome.certified) == ([landed.hour], [landed.hour])
    assert landed.is_complete
    first = landed.certificate()
    landed.assert_files_are(first)
    hour = first["predicate"]
    assert (hour["table"], hour["topic"], hour["cluster"]) == (TOPIC, TOPIC, "test")
    assert (hour["number"], hour["previous"], hour["supersedes"]) == (1, None, [])
    assert (hour["verdict"], hour["rows"]) == ("complete", 300)
    assert hour["counts"] == {"agent": 300, "broker": 300, "hdfs": 300}
    assert hour["offsets"] == [{"partition": 0, "first": 0, "end": 300, "leaderEpoch": 0}]
    landed.assert_heads_are_of(hour, {HOST})
    newest = landed.newest()["predicate"]
    assert newest["newest"] == {"number": 1, "sha256": digest_of(first)}
    assert landed.load().certified == []

    landed.write(50)
    late = landed.load()
    assert (late.late, late.certified) == (50, [landed.hour])
    second = landed.certificate()
    landed.assert_files_are(second)
    hour = second["predicate"]
    assert (hour["number"], hour["rows"], len(second["subject"])) == (2, 350, 2)
    assert hour["previous"] == digest_of(first)
    assert hour["supersedes"] == [{"number": 1, "sha256": digest_of(first), "previous": None}]

    landed.load(LoadRequest(compaction=Compaction(older_than=0, target_bytes=1 << 30)))
    third = landed.certificate()
    landed.assert_files_are(third)
    hour = third["predicate"]
    assert (hour["number"], hour["rows"], len(third["subject"])) == (3, 350, 1)
    assert [each["number"] for each in hour["supersedes"]] == [1, 2]
    assert landed.newest()["predicate"]["newest"]["sha256"] == digest_of(third)

    # Without the audit the hour would lose its certificate: it keeps its files.
    landed.write(10)
    landed.load()
    request = LoadRequest(compaction=Compaction(older_than=0, target_bytes=1 << 30))
    with proxy(landed.pipeline.audit.url, lambda *_: None) as url:
        config = msgspec.structs.replace(landed.config, audit=url)
        (refused,) = load(config, request, no_spark, Listening())
    assert "would lose its certificate" in str(refused.error)
    landed.assert_files_are(landed.certificate())

    rebuilt = landed.load(LoadRequest(rebuild=(landed.hour,)))
    assert rebuilt.rebuilt == {landed.hour: 360}
    landed.load()
    fifth = landed.certificate()
    landed.assert_files_are(fifth)
    assert fifth["predicate"]["number"] == 5
    assert [each["number"] for each in fifth["predicate"]["supersedes"]] == [1, 2, 3, 4]


def verify(landed: Landed, keys: Path) -> Ended:
    return penstock("verify", str(landed.pipeline.root), "--keys", str(keys))


def test_a_stranger_names_what_was_altered(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """With the public keys of all programs, and nothing else."""
    chroot = f"{zookeeper.address}/{tmp_path.name}-{os.getpid()}"
    with Pipeline(tmp_path, chroot, None, [TOPIC]) as pipeline:
        agents = {host: pipeline.agent(host, [TOPIC]) for host in (HOST, "web-2")}
        landed = Landed(pipeline, tmp_path)
        landed.land(30)

        def has_heard() -> bool:
            return pipeline.agents().keys() == agents.keys()

        wait_until(has_heard, what="the audit has heard both agents")
        landed.load()
        keys = tmp_path / "keys"
        (keys / "agent").mkdir(parents=True)
        shutil.copy(pipeline.audit.data_dir / "signing-key.pub", keys / "audit.pub")
        shutil.copy(landed.key.with_suffix(".pub"), keys / "loader.pub")
        for host, process in agents.items():
            shutil.copy(process.data_dir / "signing-key.pub", keys / "agent" / f"{host}.pub")
        whole = verify(landed, keys)
        assert (whole.returncode, whole.stderr) == (0, "")
        hour = landed.certificate()["predicate"]
        landed.assert_heads_are_of(hour, {HOST, "web-2"})

        heads_file = pipeline.root / hour["heads"]["path"]
        content = heads_file.read_bytes()
        document = json.loads(content)
        heads = document["heads"]
        without_a_host = document | {"heads": [h for h in heads if h["host"] == HOST]}
        swapped = document | {"heads": [heads[0], heads[1] | {"value": heads[0]["value"]}]}
        for altered, words in (
            (without_a_host, "has no agent of the host web-2"),
            (swapped, "the head of web-2"),
        ):
            heads_file.write_text(json.dumps(altered))
            ended = verify(landed, keys)
            assert ended.returncode == 1
            assert words in ended.stdout
        heads_file.write_bytes(content)
        (file,) = (path for path in landed.folder.iterdir() if path.name.startswith("part-"))
        rows = file.read_bytes()
        file.write_bytes(rows[:-1] + bytes([rows[-1] ^ 1]))
        ended = verify(landed, keys)
        assert ended.returncode == 1
        assert f"changed file: {file.relative_to(pipeline.root)}" in ended.stdout


def test_it_costs_four_calls_of_the_store(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """Of a run that closes one hour: its certificate, and which is the newest; and once a load,
    whether its heads file is there, and that file."""
    chroot = f"{zookeeper.address}/{tmp_path.name}-{os.getpid()}"
    calls: dict[str, Counter[str]] = {}
    with Pipeline(tmp_path, chroot, None, ["with", "without"]) as pipeline:
        pipeline.agent(HOST, ["with", "without"])
        for topic in pipeline.topics:
            landed = Landed(pipeline, tmp_path, topic)
            landed.write(20)
            mode = CertificateMode.TRY if topic == "with" else CertificateMode.OFF
            config = msgspec.structs.replace(
                landed.config, root=ROOT, certificates=mode, check_files_hours=0
            )
            for _ in range(2):
                spark: Any = OnlyStores(store := CountedStore(pipeline.root))
                (outcome,) = load(
                    config,
                    LoadRequest(tables=(topic,)),
                    lambda: spark,  # noqa: B023
                    Listening(),
                )
                assert outcome.error is None
            assert outcome.complete[:1] == [landed.hour]
            assert landed.has_certificate == (topic == "with")
            calls[topic] = store.calls
    heads = Counter(size=1, create=1)
    assert calls["with"] - calls["without"] == Counter(replace=2) + heads
    assert not calls["without"] - calls["with"]


def test_a_stranger_reads_the_envelope(landed: Landed) -> None:
    dsse = pytest.importorskip("securesystemslib.dsse")
    signer = pytest.importorskip("securesystemslib.signer")
    landed.land(20)
    landed.load()
    envelope = dsse.Envelope.from_dict(
        json.loads((landed.folder / "_CERTIFICATE.json").read_bytes())
    )
    paths = [landed.pipeline.audit.data_dir / "signing-key.pub", landed.key.with_suffix(".pub")]
    keys = [
        signer.SSlibKey.from_crypto(load_pem_public_key(path.read_bytes()), _fingerprint(path))
        for path in paths
    ]
    assert len(envelope.verify(keys, 2)) == 2


def _away(status: int, body: bytes) -> None:
    """Hangs up."""


def _older(status: int, body: bytes) -> tuple[int, bytes]:
    """As an audit that does not know the path."""
    return 404, b'{"error": "unknown path"}'


def _other_heads(status: int, body: bytes) -> tuple[int, bytes]:
    return status, gzip.compress(gzip.decompress(body).replace(b"web-1", b"web-2"))


def _refusing(status: int, body: bytes) -> tuple[int, bytes]:
    answers = json.loads(body)
    answers["hours"] = [{"refused": "no, for a reason"} for _ in answers["hours"]]
    return status, json.dumps(answers).encode()


def _with_more_rows(status: int, body: bytes) -> tuple[int, bytes]:
    return status, _changed(body, b'"rows":30', b'"rows":31')


def _with_other_counts(status: int, body: bytes) -> tuple[int, bytes]:
    """This is the audit's part, so only its signature tells."""
    return status, _changed(body, b'"broker":30', b'"broker":31')


def _changed(body: bytes, old: bytes, new: bytes) -> bytes:
    answers = json.loads(body)
    for answer in answers["hours"]:
        if "payload" in answer:
            payload = base64.b64decode(answer["payload"])
            assert payload.count(old) == 1
            answer["payload"] = base64.b64encode(payload.replace(old, new)).decode()
    return json.dumps(answers).encode()


def test_a_load_goes_on_without_certificates(landed: Landed) -> None:
    """Whatever the audit or somebody between answers; a later load makes them."""
    landed.land(30)
    required = landed.load_through(_refusing, certificates=CertificateMode.REQUIRED)
    assert required.uncertified == {landed.hour: "no, for a reason"}
    assert landed.hour not in required.complete
    assert not landed.is_complete

    with_answers: dict[Change, str] = {
        _refusing: "no, for a reason",
        _away: "could not be asked",
        _older: "HTTP 404: unknown path",
        _with_more_rows: "changes the loader's part",
        _with_other_counts: "has a wrong signature",
    }
    for change, words in with_answers.items():
        outcome = landed.load_through(change)
        assert words in outcome.uncertified[landed.hour]
        assert landed.is_complete
        assert not landed.has_certificate
    with_heads: dict[Change, str] = {
        _away: "could not be asked for heads",
        _older: "HTTP 404 about heads: unknown path",
        _other_heads: "another heads file than it has named",
    }
    for change, words in with_heads.items():
        outcome = landed.load_through(unchanged, heads=change)
        assert words in outcome.uncertified[landed.hour]
        assert not landed.has_certificate
    stranger = landed.key.with_suffix(".pub")
    outcome = landed.load(audit_key=str(stranger))
    assert "another key than the audit's" in outcome.uncertified[landed.hour]
    assert not landed.has_certificate

    audit_key = landed.pipeline.audit.data_dir / "signing-key.pub"
    assert landed.load(audit_key=str(audit_key)).certified == [landed.hour]
    assert landed.certificate()["predicate"]["number"] == 1
    assert landed.load(certificates=CertificateMode.OFF).uncertified == {}


def test_a_damaged_hour_gets_none(landed: Landed) -> None:
    landed.land(40)
    landed.load(certificates=CertificateMode.OFF)
    (file,) = (path for path in landed.folder.iterdir() if not path.name.startswith("_"))
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (outcome,) = load(landed.config, LoadRequest(check_files=()), no_spark, Listening())
    assert outcome.faults
    assert (landed.folder / "_DAMAGED").exists()
    load(landed.config, LoadRequest(), no_spark, Listening())
    assert not landed.has_certificate
    file.write_bytes(content)
    load(landed.config, LoadRequest(check_files=()), no_spark, Listening())
    assert landed.is_complete
    assert landed.load().certified == [landed.hour]
    landed.assert_files_are(landed.certificate())


def test_rows_that_the_ledger_does_not_have(landed: Landed) -> None:
    """The audit signs only what it counts itself."""
    landed.write(25)
    for has_ledger in (False, True):
        landed.load(ledger=False)
        outcome = landed.load(ledger=has_ledger)
        assert landed.is_complete
        assert outcome.certified == []
    assert not landed.has_certificate
