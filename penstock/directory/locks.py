"""The locks of a secure pipeline: the paths of its keys, its users, and their rights. Pure.

{directory}/security/     mode 0700, files 0600
    authority/            as made by `penstock certificates`; clients trust its ca.pem
    NAME.password         the password of each user at the brokers and the registry
    NAME.token            the token of each program that connects to the audit
    registry.users audit.users audit.tokens      hashes of these, for the registry and the audit
    brokers.yaml registry.yaml audit.yaml        the credentials of commands; see `environment`

Each program is a user with the rights that it needs. The broker, and `admin` for commands and the
audit's page, have all rights.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from client.connection.security import Mechanism
from ledger.names import LEDGER_TOPIC
from penstock.directory.places import HOST, OFFLINE, SOURCE, MirrorPorts, Places, Ports
from wire.acls import (
    ANYTHING,
    THE_CLUSTER,
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
SERVERS: Final = ("broker", "registry", "audit")  # programs with a certificate
HOSTS: Final = (HOST, "localhost")  # of these certificates
# Without `localhost`: HSTS for that name would apply to all its ports.
PAGE_HOSTS: Final = (HOST,)
_LISTENER: Final = "CLIENTS"
_LOGIN_SECONDS: Final = 3600  # a removed user stays logged in for at most this time
_SCHEMAS_TOPIC: Final = "_schemas"
_LOADER_GROUP: Final = "penstock-loader"

Settings = dict[str, Any]
Rule = tuple[ResourcePattern, Acl]


def users(*, mirrored: bool = False) -> tuple[str, ...]:
    """Returns the users of each cluster."""
    return (*USERS, _MIRROR) if mirrored else USERS


class Locks(NamedTuple):
    """The files of a secure pipeline, which keys.py creates."""

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

    def for_commands(self, server: str) -> Path:
        """Returns the file with the credentials of commands for `server`: brokers, registry or
        audit."""
        return self.folder / f"{server}.yaml"


def at_brokers(locks: Locks, user: str) -> Settings:
    """Returns the value of the key `security` with the user's credentials."""
    return {
        "tls": {"ca": str(locks.ca)},
        "login": {
            "mechanism": str(Mechanism.SCRAM_SHA_512),
            "user": user,
            "password_file": str(locks.password(user)),
        },
    }


def at_registry(locks: Locks, user: str) -> Settings:
    """Returns the value of the key `registry_security` with the user's credentials."""
    return {
        "tls": {"ca": str(locks.ca)},
        "user": user,
        "password_file": str(locks.password(user)),
    }


def at_audit(locks: Locks, user: str) -> Settings:
    """Returns the value of the key `audit_security` with the user's token."""
    return {"tls": {"ca": str(locks.ca)}, "token_file": str(locks.token(user))}


def locked_settings(
    locks: Locks, ports: Ports, mirror: MirrorPorts | None = None
) -> Mapping[str, Settings]:
    """Returns the keys of each program's configuration whose values differ from those in an open
    pipeline."""

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

    settings: dict[str, Settings] = {
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
        audit_client = client("audit")
        page = {key: value for key, value in settings["audit"].items() if key not in audit_client}
        registry = settings["registry"]
        rights = [*registry["permissions"], _permission(_MIRROR, LEDGER_TOPIC, "read", "write")]
        settings |= {
            "mirror": {
                "source": {"security": at_brokers(locks, _MIRROR)},
                "target": client(_MIRROR),
            },
            "offline-broker": broker(mirror.offline_broker),
            "offline-registry": registry | {"permissions": rights},
            "audit": page | {"clusters": {SOURCE: audit_client, OFFLINE: audit_client}},
        }
    return settings


def _permission(principal: str, subjects: str, *may: str) -> Settings:
    return {"principal": principal, "subjects": subjects, "may": list(may)}


def rules(*, mirrored: bool = False) -> tuple[Rule, ...]:
    """Returns the ACLs of the programs. They apply to every topic, except that only the registry
    may use the topic of schemas: agents and loaders get schemas from the registry."""
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    everything = Operation.ALL
    read, write, create = Operation.READ, Operation.WRITE, Operation.CREATE
    describe, configs = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS
    return (
        *_rules("registry", topic, _SCHEMAS_TOPIC, read, write, create, describe, configs),
        *_rules("agent", topic, ANYTHING, read, write, create, describe, configs),
        *_rules("agent", topic, _SCHEMAS_TOPIC, everything, permission=Permission.DENY),
        # Agents never read the ledger: repeated entries are harmless.
        *_rules("agent", topic, LEDGER_TOPIC, read, permission=Permission.DENY),
        *_rules("loader", topic, ANYTHING, read, describe, configs),
        *_rules("loader", topic, _SCHEMAS_TOPIC, everything, permission=Permission.DENY),
        *_rules("loader", topic, LEDGER_TOPIC, write, create),
        *_rules("loader", group, _LOADER_GROUP, read, describe),
        *_rules("audit", topic, LEDGER_TOPIC, read, configs),
        # To describe all topics, as the audit takes hidden ones for deleted; to show messages.
        *_rules("audit", topic, ANYTHING, read, describe),
        *_rules("audit", topic, _SCHEMAS_TOPIC, read, permission=Permission.DENY),
        *_rules("audit", group, ANYTHING, describe),
        # To see how full the brokers' disks are.
        *_rules("audit", ResourceType.CLUSTER, THE_CLUSTER, describe),
        *(_rules_of_mirror() if mirrored else ()),
    )


def _rules_of_mirror() -> Iterator[Rule]:
    """The ACLs of the mirror, the same at both clusters."""
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    write = (Operation.CREATE, Operation.WRITE, Operation.ALTER, Operation.ALTER_CONFIGS)
    read = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    yield from _rules(_MIRROR, topic, ANYTHING, *read, *write)
    yield from _rules(_MIRROR, group, ANYTHING, Operation.READ, Operation.DESCRIBE)
    transactional_id = ResourceType.TRANSACTIONAL_ID
    yield from _rules(_MIRROR, transactional_id, MIRROR_ID, Operation.WRITE, Operation.DESCRIBE)
    yield from _rules(_MIRROR, topic, _SCHEMAS_TOPIC, *write, permission=Permission.DENY)
    # The registry serves copied schemas, too.
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
