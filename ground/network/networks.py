"""Groups client addresses by network, for limits on failures and on concurrent work."""

from collections import Counter
from ipaddress import IPv6Address, ip_address, ip_network


def network_of(address: str) -> str:
    """Returns the /64 of an IPv6 address, which is what one customer gets; any other text is
    returned unchanged."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(ip, IPv6Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ip_network((ip, 64), strict=False))


class NetworkRoom:
    """Limits concurrent work, per network and in total."""

    def __init__(self, of_one: int, of_all: int | None = None) -> None:
        self._of_one = of_one
        self._of_all = of_all
        self._under_way: Counter[str] = Counter()

    def begin(self, address: str) -> bool:
        """Counts one more piece of work until `end`; returns False if there is no room."""
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
