"""Every kind of client of a registry behind locks, by one `registry_security`."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from harness.logins.made_secrets import made_secret
from harness.penstock.broker import BrokerProcess
from harness.penstock.program import REPOSITORY
from harness.penstock.registry import RegistryProcess
from loader.errors import OptionRefused
from loader.landing.task_spec import LandingJob, unpacked
from loader.landing.writer_schemas import WriterSchemas
from loader.spark.data_source.description import describe
from loader.spark.data_source.description import unpacked as unpacked_description
from loader.spark.data_source.options import read_options
from schemas.remote.address import RegistryAddress
from tests.loader.landing.decoded_batches import a_spec
from tests.registry.locked import Locks

MAY = ["read", "write"]
SECRET = made_secret("alice")
RECORD = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}


@pytest.fixture(scope="module")
def locks(tmp_path_factory: pytest.TempPathFactory) -> Locks:
    return Locks(tmp_path_factory.mktemp("locks"))


@pytest.fixture(scope="module")
def registry(
    locks: Locks, tmp_path_factory: pytest.TempPathFactory, running_broker: BrokerProcess
) -> Iterator[RegistryProcess]:
    settings = {
        "topic": f"_schemas_{uuid.uuid4().hex[:12]}",
        "permissions": [
            {"principal": "alice", "subjects": "topic-", "may": [*MAY]},
            {"principal": "alice", "subjects": "_audit", "may": [*MAY]},
            {"principal": "root", "subjects": "*", "may": [*MAY]},
        ],
    }
    directory = tmp_path_factory.mktemp("locked-registry")
    with locks.registry(directory, running_broker.bootstrap, settings=settings) as running:
        yield running


@pytest.fixture
def alice(registry: RegistryProcess, locks: Locks) -> RegistryAddress:
    return RegistryAddress(registry.url, locks.login("alice"))


def test_commands_are_told_in_a_file(
    alice: RegistryAddress, registry: RegistryProcess, tmp_path: Path
) -> None:
    path = tmp_path / "security.yaml"
    path.write_text(yaml.safe_dump(msgspec.to_builtins(alice.security)))

    def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "penstock", "schemas", *arguments, "--registry", registry.url],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    listed = penstock("list", "--registry-security", str(path), "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    refused = penstock("list")
    assert refused.returncode == 1
    assert "its certificate" in refused.stderr
    path.write_text(f"password: {SECRET}")
    wrong = penstock("list", "--registry-security", str(path))
    assert wrong.returncode == 2
    assert SECRET not in wrong.stdout + wrong.stderr


def test_executors_read_secrets_where_they_run(
    registry: RegistryProcess, alice: RegistryAddress
) -> None:
    schema_id = registry.register("topic-of-executors-value", "string").body["id"]
    packed = LandingJob(a_spec(registry=alice), ()).packed()
    spec = unpacked(packed).spec
    assert SECRET not in repr(spec)
    with WriterSchemas(spec) as schemas:
        assert schemas.schema(schema_id).text == '"string"'


def test_a_data_source_is_told_in_an_option(
    alice: RegistryAddress, registry: RegistryProcess
) -> None:
    assert registry.register("topic-of-a-source-value", RECORD).status == 200
    security = msgspec.json.encode(alice.security).decode()
    given = {"topic": "topic-of-a-source", "registry": alice.urls, "registrySecurity": security}
    packed = describe(read_options(given)).packed()
    assert SECRET not in packed
    description = unpacked_description(packed)
    assert description.registry == alice
    known = msgspec.structs.replace(description, writer_schemas={})
    schema_id = registry.register("topic-of-executors-too-value", "string").body["id"]
    with WriterSchemas(known) as schemas:
        assert schemas.schema(schema_id).text == '"string"'


@pytest.mark.parametrize("said", [f'{{"password": "{SECRET}"}}', SECRET, '{"user": 7}'])
def test_an_option_that_is_wrong_is_not_shown(said: str) -> None:
    with pytest.raises(OptionRefused, match="registrySecurity") as refused:
        read_options({"topic": "x", "registrySecurity": said})
    assert SECRET not in str(refused.value)
