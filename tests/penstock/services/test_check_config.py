"""`penstock check-config`, and the samples in the documentation."""

import json
import re
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from ground.signatures.keys import SigningKey
from harness.logins.certificates import Authority
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports
from penstock.config.reference import KINDS
from tests.penstock.running import REPOSITORY, Ended, penstock, running

SAMPLES = REPOSITORY / "docs" / "samples"


@pytest.mark.parametrize("kind", KINDS)
def test_the_sample_with_every_key_is_valid(kind: str, tmp_path: Path) -> None:
    """(That the minimal ones are, too: tests/penstock/config/test_pages.py.)"""
    sample = SAMPLES / f"{kind}.yaml"
    sample = with_its_files(sample, tmp_path)
    ended = penstock("check-config", kind, str(sample), "--json", "--offline")
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
    for name, file in meant.items():
        text = re.sub(rf"(?m)^( *{name}): /etc/penstock/\S+", rf"\1: {file}", text)
    copy.write_text(text)
    return copy


def test_files_that_cannot_be_used_are_named() -> None:
    ended = penstock(
        "check-config", "registry", str(SAMPLES / "registry.yaml"), "--json", "--offline"
    )
    assert ended.returncode == 1
    problems = json.loads(ended.stdout)["problems"]
    named = [each.partition("`: ")[0].removeprefix("`") for each in problems]
    assert named == [
        *("security.tls", "security.login.password_file", "zookeeper_security.tls"),
        *("zookeeper_security.password_file", "tls", "users_file", "tokens_file"),
        *("forwarding_security.tls", "forwarding_security.password_file"),
    ]
    assert all("no such file" in each for each in problems)


def test_what_a_file_comes_to(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(
        "id: 7\ndata_dir: /d\nzookeeper: zk:2181\nzookeeper_secret: hunter2\n"
        "topic_defaults: {retention.ms: 5}\n"
    )
    ended = penstock("check-config", "broker", str(path), "--json", "--offline")
    effective = json.loads(ended.stdout)["configuration"]
    assert effective["id"] == 7
    assert effective["port"] == 9092
    assert effective["topic_defaults"] == {"retention.ms": 5}
    assert effective["zookeeper_secret"] == "…"
    check = ("check-config", "broker", str(path), "--offline")
    assert penstock(*check).stdout == f"{path}: valid\n"
    shown = penstock(*check, "--show").stdout
    rows = [line.split() for line in shown.splitlines()]
    assert ["id", "7"] in rows
    assert ["topic_defaults.retention.ms", "5"] in rows
    assert "hunter2" not in shown + ended.stdout


def test_the_key_of_a_program_that_was_started_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(f"id: 7\ndata_dir: {tmp_path}\nzookeeper: zk:2181\n")
    check = ("check-config", "broker", str(path), "--offline")
    assert json.loads(penstock(*check, "--json").stdout)["signing_key"] is None
    key = SigningKey.kept(tmp_path / "signing-key").public
    assert f"signing key: {key.fingerprint}\n" in penstock(*check).stdout
    assert json.loads(penstock(*check, "--json").stdout)["signing_key"] == key.fingerprint
    (tmp_path / "signing-key").chmod(0o644)
    ended = penstock(*check)
    assert (ended.returncode, ended.stdout.count("valid")) == (1, 0)
    assert "other users can use this key" in ended.stderr


def test_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text("id: 7\nprot: 9092\n")
    ended = penstock("check-config", "broker", str(path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"penstock: {path}:2:1: prot: unknown key; did you mean port?\n"
        f"penstock: {path}: data_dir: is missing; expected text\n"
    )


CONFIGURATIONS = {
    "agent": "brokers: [{broker}]\nregistry: {registry}\ninputs: [{{paths: [/x], topic: t}}]\n",
    "audit": "data_dir: /d\nbrokers: [{broker}]\nregistry: {registry}\n",
    "loader": "root: file:///d\nbrokers: [{broker}]\nregistry: {registry}\ntopics: [t]\n",
    "broker": "id: 1\ndata_dir: /d\nzookeeper: {broker}\nregistry: {registry}\n",
    "registry": "brokers: [{broker}]\n",
    "client": "brokers: [{broker}]\nregistry: {registry}\nzookeeper: {broker}\n",
    "mirror": "name: m\ndata_dir: /d\nsource: {{cluster: a, brokers: [{broker}]}}\n"
    "target: {{cluster: b, brokers: [{broker}], registry: {registry}, zookeeper: {broker}}}\n",
}


def check(folder: Path, kind: str, broker: str, registry: str, *options: str) -> Ended:
    path = folder / f"{kind}.yaml"
    path.write_text(CONFIGURATIONS[kind].format(broker=broker, registry=registry))
    return penstock("check-config", kind, str(path), *options)


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_servers_must_answer_unless_offline(kind: str, tmp_path: Path) -> None:
    broker, registry = (f"127.0.0.1:{port}" for port in free_ports(2))
    ended = check(tmp_path, kind, broker, f"http://{registry}")
    assert ended.returncode == 1
    texts = CONFIGURATIONS[kind]
    for name, address, is_needed in (
        ("broker", broker, "brokers:" in texts),
        ("registry", f"http://{registry}", "registry:" in texts),
        ("ZooKeeper", broker, "zookeeper:" in texts),
    ):
        refused = f"no {name} at {address}: connection refused"
        assert (refused in ended.stderr) == is_needed, ended
        assert refused not in ended.stdout
    offline = check(tmp_path, kind, broker, f"http://{registry}", "--offline")
    assert (offline.returncode, offline.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["agent", "client"])
def test_swapped_ports_are_told_apart(
    kind: str, tmp_path: Path, running_broker: BrokerProcess, running_registry: RegistryProcess
) -> None:
    broker, registry = running_broker.bootstrap, running_registry.url.removeprefix("http://")
    ended = check(tmp_path, kind, registry, f"http://{broker}")
    assert ended.returncode == 1
    assert f"{registry} answers HTTP: is this the registry's port?" in ended.stderr
    assert f"{broker} answers Kafka's protocol: is this a broker's port?" in ended.stderr
    # Other commands say the same.
    for command, option, address in (
        ("topics", "-b", registry),
        ("schemas", "-r", f"http://{broker}"),
        ("status", "-r", f"http://{broker}"),
    ):
        words = () if command == "status" else ("list",)
        ended = penstock(command, *words, option, address)
        assert "port?" in ended.stdout + ended.stderr


@pytest.mark.not_quick("waits three seconds")
def test_a_server_that_hangs_is_named_after_three_seconds(
    tmp_path: Path, running_broker: BrokerProcess, new_topic: str
) -> None:
    """By all commands that ask a registry, and by what asks brokers of a file."""
    with socket.create_server(("127.0.0.1", 0)) as silent, ExitStack() as stack:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        (tmp_path / "registry.yaml").write_text(f"registry: http://{address}\n")
        (tmp_path / "brokers.yaml").write_text(f"brokers: ['{address}']\n")
        began = time.monotonic()
        commands = [
            stack.enter_context(running(*words.split()))
            for words in (
                f"check-config client {tmp_path}/registry.yaml",
                f"schemas list -r http://{address}",
                f"consume {new_topic} --events -b {running_broker.bootstrap} -r http://{address}",
                f"status -r http://{address}",
                f"check-config client {tmp_path}/brokers.yaml",
            )
        ]
        assert [command.wait() for command in commands] == [1] * 5
        assert time.monotonic() - began >= 3.0
        said = [(each.stdout.read() + each.stderr.read()).decode() for each in commands]
    for text in said[:4]:
        assert f"no registry at http://{address}: no answer within 3 s" in text
    assert f"{address}: no answer in time" in said[4]
