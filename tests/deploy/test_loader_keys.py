"""Loaders of the same tables get one signing key, which nothing shows; a backup has it, and the
folder of enrolled keys, but no other private key."""

import os
import shutil
import stat
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from ground.signatures.keys import SigningKey
from harness.hosts.ansible_tools import COLLECTION, Played, ansible_tool, play
from harness.logins.made_secrets import made_secret
from harness.penstock.broker import BrokerProcess
from tests.penstock.running import penstock

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(ansible_tool("ansible-playbook") is None, reason="no ansible-playbook"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv"),
    pytest.mark.skipif(os.geteuid() != 0, reason="files are root's"),
]

HERE = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
LOADERS = ("hdp-1", "hdp-2")
WITH_KEYS = [
    {
        "name": "Loaders",
        "hosts": "penstock_loader",
        "gather_facts": False,
        "serial": 1,
        "tasks": [
            {
                "name": "Write the signing key",
                "ansible.builtin.include_role": {
                    "name": "penstock.pipeline.loader",
                    "tasks_from": "signing_key.yml",
                },
            }
        ],
    }
]


def linked_release(folder: Path) -> Path:
    """A root of releases whose command is the one of this environment."""
    for name in ("opt/releases/1.0.0", "opt"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "bin").symlink_to(Path(sys.executable).parent)
    return folder / "opt"


def played(folder: Path, *options: str) -> Played:
    inventory = {"penstock_loader": {"hosts": dict.fromkeys(LOADERS, HERE)}}
    variables = {
        "ansible_become": False,
        "penstock_loader_root": "hdfs://name/logs",
        "penstock_loader_user": "root",
        "penstock_loader_config": {
            "signing_key": f"{folder}/{{{{ inventory_hostname }}}}/signing-key"
        },
        "penstock_loader_first": LOADERS[0],
        "penstock_release": "1.0.0",
        "penstock_root": f"{folder}/opt",
        "penstock_config_dir": f"{folder}/etc",
    }
    return play(folder, WITH_KEYS, inventory, "--diff", "-vvv", *options, variables=variables)


def key_of(path: Path) -> bytes:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return SigningKey.of_file(path).public.raw


def test_all_loaders_have_one_key(tmp_path: Path) -> None:
    linked_release(tmp_path)
    checked = played(tmp_path, "--check")
    assert (checked.code, list(tmp_path.glob("**/signing-key"))) == (0, []), checked.said
    ended = played(tmp_path)
    assert ended.code == 0, ended.said
    kept = tmp_path / "secrets/loader/signing-key"
    assert {key_of(tmp_path / name / "signing-key") for name in LOADERS} == {key_of(kept)}
    (body,) = kept.read_text().splitlines()[1:-1]
    assert body not in ended.said + checked.said
    again = played(tmp_path)
    assert (again.code, again.changed) == (0, []), again.said
    assert body not in again.said
    # A host that lost its key, or has another one, gets it again, and no public key of another.
    other = SigningKey.renewed(tmp_path / LOADERS[1] / "signing-key").public
    played(tmp_path)
    assert key_of(tmp_path / LOADERS[1] / "signing-key") == key_of(kept) != other.raw
    made = penstock("signing-keys", "make", "loader", str(tmp_path / LOADERS[1]))
    assert made.stdout.strip() == SigningKey.of_file(kept).public.fingerprint


def test_a_second_loader_gets_the_key_that_the_first_has(tmp_path: Path) -> None:
    linked_release(tmp_path)
    (tmp_path / LOADERS[0]).mkdir()
    key = SigningKey.kept(tmp_path / LOADERS[0] / "signing-key").public
    ended = played(tmp_path, "--limit", LOADERS[1])
    assert ended.code == 0, ended.said
    assert key_of(tmp_path / LOADERS[1] / "signing-key") == key.raw


def test_a_backup_has_the_enrolled_keys_and_no_private_key_of_a_host(
    tmp_path: Path, chroot: str, zookeeper: EmbeddedZooKeeper
) -> None:
    folder = str(tmp_path / "keys")
    data = tmp_path / "agent"
    line = penstock("signing-keys", "make", "agent", str(data), "--json").stdout
    ended = penstock("signing-keys", "enrol", "--from", "-", "--keys", folder, stdin=line)
    assert ended.returncode == 0
    secret = tmp_path / "host-secrets/zookeeper-secret"
    for path in (secret, tmp_path / "secrets/loader/signing-key"):
        path.parent.mkdir(parents=True)
    secret.write_text(made_secret("zookeeper"))
    SigningKey.new().write(tmp_path / "secrets/loader/signing-key")
    root = linked_release(tmp_path)
    variables: dict[str, Any] = {
        "ansible_become": False,
        "penstock_cluster": "dc1",
        "penstock_config_dir": f"{tmp_path}/etc",
        "penstock_host_secrets_dir": str(secret.parent),
        "penstock_root": str(root),
        "penstock_zookeeper_connect": chroot,
    }
    settings = {"zookeeper_secret_file": str(secret)}
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot, settings=settings):
        inventory = {"penstock_broker": {"hosts": {"one": HERE}}}
        path = COLLECTION / "playbooks/backup.yml"
        backed_up = play(tmp_path, path, inventory, variables=variables)
    assert backed_up.code == 0, backed_up.said
    (archive,) = tmp_path.glob("backups/dc1-*/controller.tar")
    with tarfile.open(archive) as tar:
        names = {member.name for member in tar.getmembers() if member.isfile()}
    (key,) = (path for path in Path(folder).glob("*/*.pub"))
    private = {name for name in names if name.endswith("signing-key")}
    assert str(key.relative_to(tmp_path)) in names
    assert private == {"secrets/loader/signing-key"}
