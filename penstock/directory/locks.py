"""A secure pipeline: the places of its keys, its users, and their rights. Pure.

{directory}/security/     its user's alone: 0700, and files 0600
    authority/            as `penstock certificates` keeps one; its ca.pem is what clients believe
    NAME.password         of each user, at the brokers and at the registry
    NAME.token            of who asks the audit and is no person
    registry.users audit.users audit.tokens      what those two know of them
    brokers.yaml registry.yaml audit.yaml        how commands get in: `environment` names these

Each program is a user of its own, who may do what that program does and nothing else; the broker
itself and `admin`, who gives commands and looks at the audit's page, may do everything.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from client.connection.security import Mechanism
from ledger.names import LEDGER_TOPIC
from penstock.directory.places import HOST, OFFLINE, SOURCE, MirrorPorts, Places, Ports
from wire.acls import (
    ANYTHING,
    USER,
    Acl,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from wire.mirrored import MIRROR_ID

ADMIN: Final = "admin"
USERS: Final = (ADMIN, "broker", "registry", "agent", "loader", "audit")
_MIRROR: Final = "mirror"
TOKENS: Final = (ADMIN, "loader")
SERVERS: Final = ("broker", "registry", "audit")  # those that show a certificate
HOSTS: Final = (HOST, "localhost")  # that it is for
# A browser that has been told `localhost` to be HTTPS alone would have it so at every other port.
PAGE_HOSTS: Final = (HOST,)
_LISTENER: Final = "CLIENTS"
_LOGIN_SECONDS: Final = 3600  # so long a user who was removed stays logged in, at most
_SCHEMAS_TOPIC: Final = "_schemas"
_LOADER_GROUP: Final = "penstock-loader"

Settings = dict[str, Any]
Rule = tuple[ResourcePattern, Acl]


def users(*, mirrored: bool = False) -> tuple[str, ...]:
    """The same at both clusters, where there are two."""
    return (*USERS, _MIRROR) if mirrored else USERS


class Locks(NamedTuple):
    """The files. They are there once keys.py has made them."""

    folder: Path

    @classmethod
    def of(cls, places: Places) -> "Locks":
        return cls(places.directory / "security")

    @property
    def authority(self) -> Path:
        return self.folder / "authority"

    @property
    def ca(self) -> Path:
        return self.authority / "ca.pem"

    def certificate(self, server: str) -> Path:
        return self.authority / f"{server}.pem"

    def password(self, user: str) -> Path:
        return self.folder / f"{user}.password"

    def token(self, user: str) -> Path:
        return self.folder / f"{user}.token"

    @property
    def registry_users(self) -> Path:
        return self.folder / "registry.users"

    @property
    def audit_users(self) -> Path:
        return self.folder / "audit.users"

    @property
    def audit_tokens(self) -> Path:
        return self.folder / "audit.tokens"

    def for_commands(self, asked: str) -> Path:
        """The credentials of commands: `brokers`, `registry`, `audit`."""
        return self.folder / f"{asked}.yaml"


def at_brokers(locks: Locks, user: str) -> Settings:
    """A `security:`."""
    return {
        "tls": {"ca": str(locks.ca)},
        "login": {
            "mechanism": str(Mechanism.SCRAM_SHA_512),
            "user": user,
            "password_file": str(locks.password(user)),
        },
    }


def at_registry(locks: Locks, user: str) -> Settings:
    """A `registry_security:`."""
    return {
        "tls": {"ca": str(locks.ca)},
        "user": user,
        "password_file": str(locks.password(user)),
    }


def at_audit(locks: Locks, user: str) -> Settings:
    """An `audit_security:`."""
    return {"tls": {"ca": str(locks.ca)}, "token_file": str(locks.token(user))}


def locked_settings(
    locks: Locks, ports: Ports, mirror: MirrorPorts | None = None
) -> Mapping[str, Settings]:
    """By program: what its configuration has beside, or in place of, that of an open pipeline."""

    def client(user: str) -> Settings:
        return {
            "security": at_brokers(locks, user),
            "registry_security": at_registry(locks, user),
        }

    def broker(port: int) -> Settings:
        return {
            "listeners": [
                {
                    "name": _LISTENER,
                    "port": port,
                    "tls": {"certificate": str(locks.certificate("broker"))},
                    "logins": [str(Mechanism.SCRAM_SHA_512), str(Mechanism.SCRAM_SHA_256)],
                    "login_seconds": _LOGIN_SECONDS,
                }
            ],
            "between_brokers": {"listener": _LISTENER, "security": at_brokers(locks, "broker")},
            "authorization": {"super_users": ["broker", ADMIN]},
            "registry_security": at_registry(locks, "broker"),
        }

    found: dict[str, Settings] = {
        "broker": broker(ports.broker),
        "registry": {
            "security": at_brokers(locks, "registry"),
            "tls": {"certificate": str(locks.certificate("registry"))},
            "users_file": str(locks.registry_users),
            "permissions": [
                _permission(ADMIN, "*", "read", "write", "compatibility", "delete", "mode"),
                _permission("broker", LEDGER_TOPIC, "read", "write"),
                _permission("agent", "*", "read", "write"),
                _permission("loader", "*", "read"),
                _permission("loader", LEDGER_TOPIC, "write"),
                _permission("audit", "*", "read"),
            ],
        },
        "agent": client("agent"),
        "loader": client("loader") | {"audit_security": at_audit(locks, "loader")},
        "audit": client("audit")
        | {
            "tls": {"certificate": str(locks.certificate("audit"))},
            "users_file": str(locks.audit_users),
            "tokens_file": str(locks.audit_tokens),
            "host_names": list(PAGE_HOSTS),
        },
    }
    if mirror:
        asked = client("audit")
        page = {key: said for key, said in found["audit"].items() if key not in asked}
        registry = found["registry"]
        allowed = [*registry["permissions"], _permission(_MIRROR, LEDGER_TOPIC, "read", "write")]
        found |= {
            "mirror": {
                "source": {"security": at_brokers(locks, _MIRROR)},
                "target": client(_MIRROR),
            },
            "offline-broker": broker(mirror.offline_broker),
            "offline-registry": registry | {"permissions": allowed},
            "audit": page | {"clusters": {SOURCE: asked, OFFLINE: asked}},
        }
    return found


def _permission(principal: str, subjects: str, *may: str) -> Settings:
    return {"principal": principal, "subjects": subjects, "may": list(may)}


def rules(*, mirrored: bool = False) -> tuple[Rule, ...]:
    """What brokers let programs do. Which topics there will be is known to nobody yet, but schemas
    are the registry's alone: agents and loaders get to them through it."""
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    everything = Operation.ALL
    read, write, create = Operation.READ, Operation.WRITE, Operation.CREATE
    describe, configs = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS
    return (
        *_rules("registry", topic, _SCHEMAS_TOPIC, read, write, create, describe, configs),
        *_rules("agent", topic, ANYTHING, read, write, create, describe, configs),
        *_rules("agent", topic, _SCHEMAS_TOPIC, everything, permission=Permission.DENY),
        # What it wrote there it never looks for: an entry is the same, however often it is sent.
        *_rules("agent", topic, LEDGER_TOPIC, read, permission=Permission.DENY),
        *_rules("loader", topic, ANYTHING, read, describe, configs),
        *_rules("loader", topic, _SCHEMAS_TOPIC, everything, permission=Permission.DENY),
        *_rules("loader", topic, LEDGER_TOPIC, write, create),
        *_rules("loader", group, _LOADER_GROUP, read, describe),
        *_rules("audit", topic, LEDGER_TOPIC, read, configs),
        # A topic that the audit may not see is one that was deleted, to it. It shows messages.
        *_rules("audit", topic, ANYTHING, read, describe),
        *_rules("audit", topic, _SCHEMAS_TOPIC, read, permission=Permission.DENY),
        *_rules("audit", group, ANYTHING, describe),
        *(_rules_of_mirror() if mirrored else ()),
    )


def _rules_of_mirror() -> Iterator[Rule]:
    """At both clusters: what it needs at the one does no harm at the other."""
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    made = (Operation.CREATE, Operation.WRITE, Operation.ALTER, Operation.ALTER_CONFIGS)
    read = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    yield from _rules(_MIRROR, topic, ANYTHING, *read, *made)
    yield from _rules(_MIRROR, group, ANYTHING, Operation.READ, Operation.DESCRIBE)
    writer = ResourceType.TRANSACTIONAL_ID
    yield from _rules(_MIRROR, writer, MIRROR_ID, Operation.WRITE, Operation.DESCRIBE)
    yield from _rules(_MIRROR, topic, _SCHEMAS_TOPIC, *made, permission=Permission.DENY)
    # Schemas that were copied are served by the registry, as its own are.
    schemas = f"{SOURCE}.{_SCHEMAS_TOPIC}"
    yield from _rules("registry", topic, schemas, *read)
    for user in ("agent", "loader"):
        yield from _rules(user, topic, schemas, Operation.ALL, permission=Permission.DENY)


def _rules(
    user: str,
    kind: ResourceType,
    name: str,
    *operations: Operation,
    permission: Permission = Permission.ALLOW,
) -> Iterator[Rule]:
    for operation in operations:
        yield ResourcePattern(kind, name), Acl(f"{USER}{user}", ANYTHING, operation, permission)
