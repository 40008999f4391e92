"""Whom an address stands for, where it is counted how often somebody has failed."""

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
