"""`penstock check-config`, and the samples in the documentation."""

import json
import re
from pathlib import Path

import pytest

from cluster.errors import NoJava
from cluster.jars import find_java
from harness.certificates import Authority
from penstock.config.reference import KINDS
from tests.penstock.running import REPOSITORY, penstock

SAMPLES = REPOSITORY / "docs" / "samples"


@pytest.mark.parametrize("kind", KINDS)
def test_the_sample_with_every_key_is_valid(kind: str, tmp_path: Path) -> None:
    """(That the minimal ones are, too: tests/penstock/config/test_samples.py.)"""
    if kind == "loader":
        try:
            find_java()
        except NoJava as error:
            pytest.skip(str(error))
    offline = ["--offline"] if kind in {"agent", "loader", "audit"} else []
    sample = SAMPLES / f"{kind}.yaml"
    if kind == "audit":
        sample = with_its_files(sample, tmp_path)
    ended = penstock("check-config", kind, str(sample), "--json", *offline)
    assert (ended.returncode, ended.stderr) == (0, "")


def with_its_files(sample: Path, directory: Path) -> Path:
    """The files without which an audit would not start are looked at as well."""
    authority = Authority(directory)
    authority.sign("audit")
    for name in ("audit-users", "audit-tokens"):
        (directory / name).touch()
    text = sample.read_text().replace("/etc/penstock/", f"{directory}/")
    text = re.sub(r"(client_ca|revoked): \S+", rf"\1: {authority.ca}", text)
    copy = directory / sample.name
    copy.write_text(text)
    return copy


def test_what_a_file_comes_to(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(
        "id: 7\ndata_dir: /d\nzookeeper: zk:2181\nzookeeper_secret: hunter2\n"
        "topic_defaults: {retention.ms: 5}\n"
    )
    ended = penstock("check-config", "broker", str(path), "--json")
    effective = json.loads(ended.stdout)
    assert effective["id"] == 7
    assert effective["port"] == 9092
    assert effective["topic_defaults"] == {"retention.ms": 5}
    assert effective["zookeeper_secret"] == "…"
    shown = penstock("check-config", "broker", str(path)).stdout
    rows = [line.split() for line in shown.splitlines()]
    assert ["id", "7"] in rows
    assert ["topic_defaults.retention.ms", "5"] in rows
    assert "hunter2" not in shown + ended.stdout


def test_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text("id: 7\nprot: 9092\n")
    ended = penstock("check-config", "broker", str(path))
    assert ended.returncode == 2
    assert ended.stderr == f"penstock: {path}:2: prot: unknown key; did you mean port?\n"
