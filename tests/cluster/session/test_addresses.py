"""The value of `zookeeper:`, good and bad."""

import pytest

from cluster.errors import BadAddress
from cluster.session.addresses import ZooKeeperAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("zk1:2181", ZooKeeperAddress(("zk1:2181",), "/penstock")),
        ("zk1", ZooKeeperAddress(("zk1:2181",), "/penstock")),
        ("zk1,zk2:2182", ZooKeeperAddress(("zk1:2181", "zk2:2182"), "/penstock")),
        (" zk1 , zk2 /x/", ZooKeeperAddress(("zk1:2181", "zk2:2181"), "/x")),
        ("zk1:2181/a/b-c", ZooKeeperAddress(("zk1:2181",), "/a/b-c")),
        ("[::1]:2182/x", ZooKeeperAddress(("[::1]:2182",), "/x")),
        ("[::1]", ZooKeeperAddress(("[::1]:2181",), "/penstock")),
    ],
)
def test_addresses(text: str, address: ZooKeeperAddress) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "''"),
        (",", "''"),
        ("zk1,,zk2", "''"),
        ("/penstock", "''"),
        ("zk1:port", "'port'"),
        ("zk1:0", "'0'"),
        ("zk1:65536", "'65536'"),
        ("zk1:", "''"),
        ("::1", "'::1'"),
        ("http://zk1:2181", "'http:"),
        ("zk1/", "'/'"),
        ("zk1//x", "'//x'"),
        ("zk1/../x", "'/../x'"),
        ("zk1/zookeeper", "'/zookeeper'"),
        ("user@zk1:2181", "'user@zk1:2181'"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(BadAddress) as error:
        parse_address(text)
    assert repr(text) in str(error.value)
    assert said in str(error.value)
