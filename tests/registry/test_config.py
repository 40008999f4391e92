"""What a registry's configuration may say."""

from pathlib import Path

import pytest

from penstock.config.configuration import ConfigurationError, load
from registry.config import RegistryConfig
from registry.schemas_topic.values import Level

RULE = "{principal: a, subjects: '*', may: [read]}"
LOGINS = f"users_file: u, permissions: [{RULE}]"


def loaded(tmp_path: Path, text: str) -> RegistryConfig:
    path = tmp_path / "registry.yaml"
    path.write_text(text)
    return load(RegistryConfig, path)


def test_nothing_has_to_be_said(tmp_path: Path) -> None:
    config = loaded(tmp_path, "")
    assert [str(address) for address in config.bootstrap.addresses] == ["127.0.0.1:9092"]
    assert (config.host, config.port, config.topic) == ("127.0.0.1", 8081, "_schemas")
    assert config.compatibility is Level.BACKWARD
    assert config.ids == range(1, 2**31)
    assert not config.read_only


def test_what_can_be_said(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "brokers: [a, 'b:19092', '[::1]:9093']\n"
        "compatibility: FULL_TRANSITIVE\n"
        "id_base: 1000\nid_count: 500\n"
        "limits: {waiting_writes: 7}\npatience: {forward: 3}\n"
        "mirrored: [{topic: dc1._schemas}, {topic: of-dc2, prefix: dc2-}]\n",
    )
    assert [str(address) for address in config.bootstrap.addresses] == [
        "a:9092",
        "b:19092",
        "[::1]:9093",
    ]
    assert config.compatibility is Level.FULL_TRANSITIVE
    assert config.ids == range(1000, 1500)
    assert config.limits.waiting_writes == 7
    assert config.patience.forward == 3
    assert [each.subjects for each in config.mirrored] == ["dc1.", "dc2-"]


def test_a_range_of_ids_may_end_where_all_do(tmp_path: Path) -> None:
    config = loaded(tmp_path, "id_base: 2147483640\nid_count: 8\n")
    assert config.ids[-1] == 2**31 - 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("brokers: []", "`brokers` must name at least one broker"),
        ("brokers: ['a:b']", "`brokers`: bootstrap 'a:b': 'b' is not a port"),
        ("zookeeper: embedded", "`zookeeper: embedded` is for brokers"),
        ("mirrored: [{topic: a/b}]", "`topic`"),
        (
            "mirrored: [{topic: dc1}]",
            "`prefix` is required: the topic name dc1 is not PREFIX_schemas",
        ),
        ("mirrored: [{topic: _schemas, prefix: a}]", "duplicate topic _schemas"),
        (
            "mirrored: [{topic: dc1._schemas}, {topic: dc1.b._schemas}]",
            "the prefixes 'dc1.' and 'dc1.b.' overlap",
        ),
        ("port: 65536", "`port` must be between 0 and 65535"),
        ("host: 10.0.0.1", "`host: 10.0.0.1` can be reached from other machines"),
        (
            "{host: 0.0.0.0, insecure: true, zookeeper: 'zk:2181'}",
            "`host: 0.0.0.0` is not an address that other registries can connect to",
        ),
        ("replication_factor: 0", "`replication_factor` must be positive"),
        ("zookeeper_session_seconds: 1", "`zookeeper_session_seconds` must be between 2 and 60"),
        ("sign_of_life_seconds: 0", "`sign_of_life_seconds` must be positive"),
        ("id_base: 0", "`id_base` must be between 1 and 2147483647"),
        ("id_count: 0", "`id_count` must be positive"),
        ("{id_base: 2147483640, id_count: 9}", "`id_base` + `id_count` at most 2147483648"),
        ("compatibility: BACKWARDS", "compatibility"),
        ("topic: ../x", "`topic`: "),
        ("limits: {connections: 0}", "`connections` must be positive"),
        ("patience: {write: 0}", "`write` must be positive"),
        ("brokre: a", "unknown key; did you mean brokers"),
        ("users_file: u", "without `permissions` no principal may do anything"),
        (f"permissions: [{RULE}]", "`permissions` needs logins"),
        ("registries: [r]", "`registries` needs logins"),
        ("certificate_names: [{subject: CN=(.*)}]", "`certificate_names` needs `tls`"),
        (f"{{host: 10.0.0.1, {LOGINS}}}", "`host: 10.0.0.1` can be reached"),
        ("{host: 10.0.0.1, tls: {certificate: c}}", "`host: 10.0.0.1` can be reached"),
        (f"{{zookeeper: zk, {LOGINS}}}", "must log in to each other"),
        (f"{{zookeeper: zk, {LOGINS}, registries: [r]}}", "must log in to each other"),
        ("forwarding_security: {tls: {}}", "`forwarding_security`: `tls` is for https://"),
        (
            f"{{zookeeper: zk, permissions: [{RULE}], tls: {{certificate: c, client_ca: c}}, "
            "registries: [r], forwarding_security: {token_env: T}}",
            "must log in to each other",  # a certificate: the others want one
        ),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        loaded(tmp_path, text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_address_for_others_may_stand_for_all_of_ours(tmp_path: Path) -> None:
    text = "{host: 0.0.0.0, advertised_host: dc1-a, insecure: true, zookeeper: 'zk:2181'}"
    assert loaded(tmp_path, text).advertised_host == "dc1-a"


def test_behind_locks_an_address_is_for_others(tmp_path: Path) -> None:
    config = loaded(tmp_path, f"{{host: 10.0.0.1, tls: {{certificate: c}}, {LOGINS}}}")
    assert not config.is_open_to_anybody
    assert config.access_to_others.tls is not None
    assert loaded(tmp_path, "{host: 10.0.0.1, insecure: true}").is_open_to_anybody
    in_the_clear = loaded(tmp_path, f"{{host: 10.0.0.1, insecure: true, {LOGINS}}}")
    assert in_the_clear.is_open_to_anybody
    assert in_the_clear.access_to_others.tls is None
    assert not loaded(tmp_path, "").is_open_to_anybody
