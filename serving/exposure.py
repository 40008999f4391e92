"""Who can reach what a program listens on. What other machines reach must be meant."""

from ipaddress import ip_address


def check_exposed(key: str, host: str, *, insecure: bool) -> None:
    """ValueError, which names the configuration's key, unless the address may be listened on."""
    if not insecure and not is_loopback(host):
        raise ValueError(
            f"`{key}: {host}` can be reached from other machines and nobody has to "
            "authenticate: say `insecure: true` if that is meant"
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Whether it stands for all addresses of the machine, and is none to connect to."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
