"""Parses the value of `zookeeper:`: hosts and a chroot."""

from typing import Final

import msgspec

from cluster.errors import BadAddress

DEFAULT_CHROOT: Final = "/penstock"
DEFAULT_PORT: Final = 2181
_HIGHEST_PORT: Final = 65535


class ZooKeeperAddress(msgspec.Struct, frozen=True):
    """The location of a cluster's map: an ensemble, and the node that contains everything."""

    hosts: tuple[str, ...]  # "host:port", an IPv6 address in brackets
    chroot: str

    def __str__(self) -> str:
        return ",".join(self.hosts) + self.chroot


def parse_address(text: str) -> ZooKeeperAddress:
    """Parses `zk1:2181,zk2:2181/penstock`. The default port is 2181, the default chroot
    /penstock."""
    hosts, slash, rest = text.strip().partition("/")
    chroot = DEFAULT_CHROOT
    if slash:
        parts = rest.rstrip("/").split("/")
        if not rest.rstrip("/") or not all(_legal_node(part) for part in parts):
            raise BadAddress(
                f"zookeeper {text!r}: {'/' + rest!r} is not a chroot such as /penstock"
            )
        chroot = "/" + "/".join(parts)
    return ZooKeeperAddress(tuple(_host(host.strip(), text) for host in hosts.split(",")), chroot)


def _host(host: str, text: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):  # no port: "zk1" or "[::1]"
        name, port = host, str(DEFAULT_PORT)
    if not name or any(character in name for character in " @?#") or _bare_ipv6(name):
        raise BadAddress(
            f"zookeeper {text!r}: {host!r} is not a host such as zk1:2181 or [::1]:2181"
        )
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= _HIGHEST_PORT):
        raise BadAddress(f"zookeeper {text!r}: {port!r} is not a port")
    return f"{name}:{port}"


def _bare_ipv6(name: str) -> bool:
    return ":" in name and not (name.startswith("[") and name.endswith("]"))


def _legal_node(name: str) -> bool:
    return name not in {"", ".", "..", "zookeeper"} and name.isprintable()
