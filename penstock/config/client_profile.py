"""A client profile: the addresses of a pipeline and the credentials for them.

The keys are named like the options of the command, and the keys of a program's configuration.
"""

import msgspec

from client.connection.addresses import parse_addresses
from client.connection.security import Security
from client.errors import BadAddress
from cluster.session.security import ZooKeeperSecurity
from ground.http.client import parse_program_url
from ground.http.security import HttpSecurity, check_scheme
from ground.settings import FilePath, HostAndPort, Url


class ClientProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The addresses of a pipeline, and the credentials, for the `penstock` command."""

    cluster: str = ""
    """The audit's name of the cluster, for `penstock gate` and `penstock audit`."""
    brokers: tuple[HostAndPort, ...] = ()
    """Some brokers of the cluster (`--bootstrap`)."""
    security: Security = Security()
    """[How the command connects to the brokers](secure-connections.md) (`--security`)."""
    broker_http: tuple[Url, ...] = ()
    """HTTP ports of brokers (`--broker-http`)."""
    broker_http_security: HttpSecurity = HttpSecurity()
    """How the command connects to these ports."""
    registry: Url = ""
    """The schema registry; several instances separated by commas."""
    registry_security: HttpSecurity = HttpSecurity()
    """[How the command connects to the registry](secure-connections.md#a-registry-with-logins)."""
    audit: Url = ""
    """The audit."""
    audit_security: HttpSecurity = HttpSecurity()
    """[How the command connects to the audit](secure-connections.md#an-audit-with-logins)."""
    agent: Url = ""
    """The agent of this host."""
    agent_security: HttpSecurity = HttpSecurity()
    """How the command connects to the agent."""
    zookeeper: str = ""
    """The brokers' ZooKeeper, `HOST:PORT,…/CHROOT`, for `penstock backup`."""
    zookeeper_security: ZooKeeperSecurity = ZooKeeperSecurity()
    """How the command connects to ZooKeeper."""
    zookeeper_secret_file: FilePath = ""
    """The file with the brokers' `zookeeper_secret`. Only commands that need it read it."""

    def __post_init__(self) -> None:
        try:
            parse_addresses(",".join(self.brokers or ("localhost",)))
        except BadAddress as error:
            raise ValueError(f"`brokers`: {error}") from None
        for key in ("broker_http", "registry", "audit", "agent"):
            for url in filter(None, self.address(key).split(",")):
                try:
                    check_scheme(getattr(self, f"{key}_security"), parse_program_url(url).scheme)
                except ValueError as error:
                    raise ValueError(f"`{key}`: {url}: {error}") from None

    def address(self, key: str) -> str:
        """Returns the address under `key`, in the form that the command's option takes."""
        value: str | tuple[str, ...] = getattr(self, key)
        return value if isinstance(value, str) else ",".join(value)
