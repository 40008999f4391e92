"""Checks whether brokers, registry and ZooKeeper answer at the configured addresses, and detects
swapped ports.

Each question waits three seconds at most. A broker's address that answers HTTP, and a registry's
that answers Kafka's protocol, are named as such: ports are easily swapped.
"""

import socket
from typing import Final

from msgspec.structs import replace

from client.connection.addresses import Address
from client.connection.bootstrap import IN_THE_CLEAR, Bootstrap
from client.connection.connection import BrokerConnection, reason
from client.errors import ClientError, NotReachable
from cluster.errors import BadAddress
from cluster.session.addresses import parse_address
from ground.http.client import HttpUrl
from schemas.errors import RegistryError, RegistryNotReachable, RegistryTimedOut
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress
from schemas.remote.urls import parse_urls
from wire.messages import metadata
from wire.messages.metadata import MetadataRequest

SECONDS: Final = 3.0
_CLIENT_ID: Final = "penstock"


def answering_broker(bootstrap: Bootstrap) -> Bootstrap:
    """Returns the first address at which a broker answers. Raises ClientError if none does."""
    failure: ClientError = NotReachable("no broker to connect to")
    for address in bootstrap.addresses:
        try:
            connection = BrokerConnection(
                address, _CLIENT_ID, bootstrap.access, contact_seconds=SECONDS
            )
            try:
                connection.call(metadata.API, MetadataRequest(topics=()), within=SECONDS)
            finally:
                connection.close()
        except ClientError as error:
            failure = error
        else:
            return replace(bootstrap, addresses=(address,))
    raise failure


def registry_within(address: RegistryAddress) -> RegistryClient:
    """Returns a registry client that gives up on a request after three seconds."""
    return RegistryClient(
        address, patience_seconds=SECONDS, first_contact_seconds=0, attempt_seconds=SECONDS
    )


def registry_failure(error: RegistryError, urls: str) -> str:
    """Returns the error's text, or says that the URL is a broker's address. Brokers close a
    connection on which HTTP arrives, so a server that only stays silent is not tried again."""
    if isinstance(error, RegistryNotReachable) and not isinstance(error, RegistryTimedOut):
        for url in parse_urls(urls):
            if _answers_kafka(url):
                return (
                    f"{Address(url.host, url.port)} answers Kafka's protocol: is this a broker's "
                    "port?"
                )
    return str(error)


def broker_problem(bootstrap: Bootstrap) -> str:
    """Returns why no broker answers; empty if one does."""
    try:
        answering_broker(bootstrap)
    except ClientError as error:
        return str(error)
    return ""


def registry_problem(address: RegistryAddress) -> str:
    """Returns why no registry answers; empty if one does."""
    try:
        with registry_within(address) as registry:
            registry.subjects()
    except RegistryError as error:
        return registry_failure(error, address.urls)
    return ""


def zookeeper_problem(address: str) -> str:
    """Returns why no server of the ensemble accepts a connection; empty if one does."""
    problem = ""
    try:
        servers = parse_address(address).hosts
    except BadAddress as error:
        return str(error)
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
        except UnicodeError:  # a host name with an empty or overlong label
            problem = problem or f"no ZooKeeper at {server}: not a host name"
        except OSError as error:
            problem = problem or f"no ZooKeeper at {server}: {reason(error)}"
        else:
            return ""
    return problem


def _answers_kafka(url: HttpUrl) -> bool:
    try:
        address = Address(url.host, url.port)
        BrokerConnection(address, _CLIENT_ID, IN_THE_CLEAR, contact_seconds=SECONDS).close()
    except ClientError:
        return False
    return True
