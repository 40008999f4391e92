"""ZooKeeper is lost and comes back empty: topics from the broker's disk, the rest from a backup."""

import json
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.map_backup import is_known
from cluster.records import acls
from cluster.session.session import Session
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.logins.made_secrets import made_secret
from harness.penstock.broker import BrokerProcess
from tests.penstock.running import At, penstock
from wire.acls import Acl, Operation, PatternType, Permission, ResourcePattern, ResourceType

ON_KEPT = ResourcePattern(ResourceType.TOPIC, "kept", PatternType.LITERAL)
ALLOWED = Acl("User:alice", "*", Operation.WRITE, Permission.ALLOW)


@contextmanager
def guarded_session(address: str) -> Iterator[Session]:
    secret = made_secret("zookeeper")
    session = Session.connect(address, secret=secret, makes_map=False)
    try:
        yield session
    finally:
        session.close()


def test_what_zookeeper_alone_knew_comes_back(
    tmp_path: Path, chroot: str, zookeeper: EmbeddedZooKeeper
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(made_secret("zookeeper"))
    password = tmp_path / "password"
    password.write_text(made_secret("password"))
    file = tmp_path / "backup.json"
    settings = {"zookeeper_secret_file": str(secret)}
    guarded = ("--zookeeper-secret-file", str(secret))
    first = BrokerProcess(tmp_path / "broker", zookeeper=chroot, settings=settings)
    with first as broker:
        at = At(broker.bootstrap)
        at.output("topics", "create", "kept", "--config", "retention.ms=777000")
        at.output("topics", "create", "gone", "--config", "retention.ms=1000")
        at.output("produce", "kept", stdin="x\ny\n")
        with guarded_session(chroot) as session:
            acls.add(session, ON_KEPT, [ALLOWED])
        at.output("quotas", "set", "--client-id", "*", "--produce", "10e6")
        at.output("users", "add", "alice", "--password-file", str(password))
        made = penstock("backup", "make", str(file), "--zookeeper", chroot, *guarded)
        assert (made.returncode, made.stderr) == (0, "")
        assert "2 configs of topics, 1 users, 1 quotas, 1 patterns with ACLs" in made.stdout
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        again = penstock("backup", "make", str(file), "--zookeeper", chroot, *guarded)
        assert again.returncode == 1  # it is not written over
        shown = penstock("backup", "show", str(file))
        assert (shown.returncode, shown.stderr) == (0, "")
        at.output("topics", "delete", "gone", "--yes")

    lost = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"  # an empty one in its place
    config = first.config
    config.write_text(config.read_text().replace(chroot, lost))
    recover = ("topics", "recover", "--config", str(config))
    for became in ("created", "unchanged"):
        recovered = penstock(*recover)
        assert (recovered.returncode, f"  {became}: " in recovered.stdout) == (0, True), recovered
    arguments = ("backup", "restore", str(file), "--zookeeper", lost, *guarded, "--yes", "--json")
    restored = penstock(*arguments)
    assert restored.returncode == 1  # as one topic is not there
    became = json.loads(restored.stdout)
    assert became["without_topic"] == ["/config/topics/gone"]
    assert (became["unchanged"], became["others"]) == ([], [])
    repeated = json.loads(penstock(*arguments).stdout)
    assert repeated["unchanged"] == became["created"]
    with first as broker:
        at = At(broker.bootstrap)
        assert "777000" in at.output("topics", "describe", "kept")
        assert at.output("consume", "kept", "--from", "beginning", "--to-end") == "x\ny\n"
        assert "alice" in at.output("users", "list")
        with guarded_session(lost) as session:
            assert acls.standing(session, ON_KEPT) == (ALLOWED,)
        assert "10" in at.output("quotas", "list")
        with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
            assert "gone" not in brokers.refresh(None).topics

    other = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    with BrokerProcess(tmp_path / "other", zookeeper=other):
        refused = penstock("backup", "restore", str(file), "--zookeeper", other, "--yes")
    assert refused.returncode == 1
    assert "nothing was restored: the map is cluster " in refused.stderr


def test_a_file_that_is_no_backup(tmp_path: Path) -> None:
    """What is no file of ours, and one with nodes that a backup does not have."""
    file = tmp_path / "backup.json"
    for body in (b"", b"{}", b"[" * 100_000, os.urandom(100)):
        file.write_bytes(body)
        ended = penstock("backup", "show", str(file))
        assert (ended.returncode, "is not a backup of this release" in ended.stderr) == (1, True)
    for path in (
        *("/controller", "/brokers/topics/a", "/config/topics/../a", "/config/topics/", ""),
        *("/config/brokers/a", "/config/quotas/..", "/acls/literal/Topic/", "config/topics/a"),
        "/acls/literal/Other/a",
    ):
        assert not is_known(path), path
        backup = {"program_version": "0", "made": 0, "cluster": "c", "nodes": {path: ""}}
        file.write_text(json.dumps(backup))
        ended = penstock("backup", "restore", str(file), "--zookeeper", "127.0.0.1:9", "--yes")
        assert (ended.returncode, "is not a backup of this release" in ended.stderr) == (1, True)
