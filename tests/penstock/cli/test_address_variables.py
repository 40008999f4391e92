"""The environment says where a pipeline is, unless an option or a file does."""

import pytest

from harness.server_process import free_ports
from penstock.cli import address_variables
from penstock.cli.address_variables import AGENT, AUDIT, BOOTSTRAP, BROKER_HTTP, REGISTRY
from tests.penstock.running import penstock

SET = [
    (BOOTSTRAP, "127.0.0.1:{}", ["topics", "list"], "no broker at {}: connection refused"),
    (BOOTSTRAP, "127.0.0.1:{}", ["audit", "accept", "t", "--host", "h", "--reason", "x"], "{}"),
    (REGISTRY, "http://127.0.0.1:{}", ["schemas", "list"], "no registry at {}: connection refused"),
    (AUDIT, "http://127.0.0.1:{}", ["report"], "no audit answers at {}: connection refused"),
    (AGENT, "http://127.0.0.1:{}", ["agent", "--status"], "no agent answers at {}"),
]
OPTIONS = {BOOTSTRAP: "--bootstrap", REGISTRY: "--registry", AUDIT: "--audit", AGENT: "--agent"}


@pytest.mark.parametrize(("variable", "address", "command", "said"), SET)
def test_a_variable_is_a_default_that_an_option_replaces(
    variable: str,
    address: str,
    command: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_variable, by_option = (address.format(port) for port in free_ports(2))
    monkeypatch.setenv(variable, by_variable)
    assert said.format(by_variable) in penstock(*command).stderr
    assert said.format(by_option) in penstock(*command, OPTIONS[variable], by_option).stderr


def test_what_is_wrong_with_a_variable_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AGENT, "web-3:9464")
    ended = penstock("agent", "--status")
    assert ended.returncode == 2
    assert "'web-3:9464' is no address of an agent, such as http://127.0.0.1:9464" in ended.stderr


def test_there_is_one_for_each_kind_of_address() -> None:
    named = {value for name, value in vars(address_variables).items() if name.isupper()}
    assert named == {*OPTIONS, BROKER_HTTP}  # which is one of several that `status` asks
