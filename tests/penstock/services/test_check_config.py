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
    """(That the minimal ones are, too: tests/penstock/config/test_pages.py.)"""
    if kind == "loader":
        try:
            find_java()
        except NoJava as error:
            pytest.skip(str(error))
    offline = ["--offline"] if kind in {"agent", "loader", "audit"} else []
    sample = SAMPLES / f"{kind}.yaml"
    sample = with_its_files(sample, tmp_path)
    ended = penstock("check-config", kind, str(sample), "--json", *offline)
    assert (ended.returncode, ended.stderr) == (0, "")


def with_its_files(sample: Path, directory: Path) -> Path:
    """The files that it names are there, each as its key wants it."""
    authority = Authority(directory)
    signed = authority.sign("server")
    for name in ("users", "tokens"):
        (directory / name).touch()
    (directory / "secret").write_text("correct horse")
    text, certificate = sample.read_text(), signed.certificate
    if not re.search(r"^ *key: ", text, re.MULTILINE):  # it is in the certificate's file
        certificate = directory / "both.pem"
        certificate.write_bytes(signed.certificate.read_bytes() + signed.key.read_bytes())
    meant = dict.fromkeys(("ca", "client_ca", "revoked"), authority.ca)
    meant |= dict.fromkeys(("password_file", "token_file", "keytab"), directory / "secret")
    meant |= {"users_file": directory / "users", "tokens_file": directory / "tokens"}
    meant |= {"certificate": certificate, "key": signed.key}
    copy = directory / sample.name
    copy.write_text(
        re.sub(
            r"^( *)(\w+): /etc/penstock/\S+",
            lambda found: f"{found[1]}{found[2]}: {meant[found[2]]}",
            text,
            flags=re.MULTILINE,
        )
    )
    return copy


@pytest.mark.parametrize("kind", ["registry", "broker"])
def test_files_that_cannot_be_used_are_named(kind: str, tmp_path: Path) -> None:
    ended = penstock("check-config", kind, str(SAMPLES / f"{kind}.yaml"), "--json")
    assert ended.returncode == 1
    problems = json.loads(ended.stdout)["problems"]
    named = [each.partition("`: ")[0].removeprefix("`") for each in problems]
    assert named == BROKEN[kind]
    assert all("no such file" in each for each in problems)


BROKEN = {
    "registry": [
        "security.tls",
        "security.login.password_file",
        "zookeeper_security.tls",
        "zookeeper_security.password_file",
        "tls",
        "users_file",
        "tokens_file",
        "forwarding_security.tls",
        "forwarding_security.password_file",
    ],
    "broker": [
        "listeners[0].tls",
        "listeners[1].tls",
        "between_brokers.security.tls",
        "between_brokers.security.login.password_file",
        "http.tls",
        "http.tokens_file",
        "zookeeper_security.tls",
        "zookeeper_security.password_file",
        "registry_security.tls",
        "registry_security.password_file",
    ],
}


def test_a_user_who_is_none_is_found_in_the_registrys_file(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("alice:scrypt:16384:8:1:c2FsdHNhbHQ=:c2hvcnQ=\n")
    path = tmp_path / "registry.yaml"
    path.write_text(
        f"users_file: {tmp_path}/users\n"
        "permissions: [{principal: alice, subjects: '*', may: [read]}]\n"
    )
    ended = penstock("check-config", "registry", str(path))
    assert ended.returncode == 1
    said = f"`users_file`: {tmp_path}/users, line 1: not `name:scrypt:…`"
    assert f"problem: {said}" in ended.stdout
    assert ended.stderr == f"penstock: {path}: {said}\n"


def test_what_a_file_comes_to(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(
        "id: 7\ndata_dir: /d\nzookeeper: zk:2181\nzookeeper_secret: hunter2\n"
        "topic_defaults: {retention.ms: 5}\n"
    )
    ended = penstock("check-config", "broker", str(path), "--json")
    effective = json.loads(ended.stdout)["configuration"]
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
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"penstock: {path}:2:1: prot: unknown key; did you mean port?\n"
        f"penstock: {path}: data_dir: is required: text\n"
    )
