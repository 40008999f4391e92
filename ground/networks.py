"""Whom an address stands for, where it is counted what somebody has failed at or has under way."""

from collections import Counter
from ipaddress import IPv6Address, ip_address, ip_network


def network_of(address: str) -> str:
    """Of IPv6 the /64, which is what one customer has; what is no address stands for itself."""
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(known, IPv6Address):
        return str(known)
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    return str(ip_network((known, 64), strict=False))


class NetworkRoom:
    """How much may be under way at a time, for one network and for all together. Whoever has many
    addresses of one network has no more room for it."""

    def __init__(self, of_one: int, of_all: int | None = None) -> None:
        self._of_one = of_one
        self._of_all = of_all
        self._under_way: Counter[str] = Counter()

    def begin(self, address: str) -> bool:
        """Whether there is room for one more, which then counts until it is ended."""
        network = network_of(address)
        is_full = self._of_all is not None and self._under_way.total() >= self._of_all
        if is_full or self._under_way.get(network, 0) >= self._of_one:
            return False
        self._under_way[network] += 1
        return True

    def end(self, address: str) -> None:
        network = network_of(address)
        self._under_way[network] -= 1
        if not self._under_way[network]:
            del self._under_way[network]
