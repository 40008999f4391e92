"""Addresses and credentials for the programs of a pipeline on this machine."""

from typing import NamedTuple

import msgspec

from client.connection.bootstrap import Bootstrap
from client.connection.security import Security
from ground.http.security import HttpSecurity
from ground.known_types import known_type
from penstock.directory.locks import ADMIN, Locks, at_audit, at_brokers, at_registry
from penstock.directory.places import Addresses, MirrorPorts, Places, Ports
from schemas.remote.address import RegistryAddress


class PipelineAccess(NamedTuple):
    """The addresses of a pipeline and the credentials for them. The defaults are those of an open
    pipeline, without TLS and login."""

    addresses: Addresses = Addresses()
    security: Security = Security()
    registry_security: HttpSecurity = HttpSecurity()
    audit_security: HttpSecurity = HttpSecurity()
    agent_security: HttpSecurity = HttpSecurity()
    broker_http_security: HttpSecurity = HttpSecurity()

    @classmethod
    def of(cls, places: Places, ports: Ports, *, secure: bool) -> "PipelineAccess":
        """Returns the access to a pipeline, whose files need not exist yet."""
        if not secure:
            return cls(Addresses.of(ports))
        locks = Locks.of(places)
        return cls(
            Addresses.of(ports, secure=True),
            msgspec.convert(at_brokers(locks, ADMIN), known_type(Security)),
            msgspec.convert(at_registry(locks, ADMIN), known_type(HttpSecurity)),
            msgspec.convert(at_audit(locks, ADMIN), known_type(HttpSecurity)),
        )

    def offline(self, ports: MirrorPorts | None) -> "PipelineAccess":
        """The access to the cluster into which the mirror copies; the same access if there is no
        mirror."""
        return self._replace(addresses=self.addresses.offline(ports)) if ports else self

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(self.addresses.brokers, self.security)

    @property
    def registry(self) -> RegistryAddress:
        return RegistryAddress(self.addresses.registry, self.registry_security)
