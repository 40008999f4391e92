"""Apache Kafka with locks: TLS of a test's own authority, every mechanism, and ACLs if asked for.

Its users are in USERS; the broker itself is one of them, and may do everything.
"""

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.apache_kafka import ApacheKafka
from harness.certificates import Authority

USERS: Final = {"alice": "a secret that 'nobody' = uses", "agent": "agent-secret-1f0c"}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_BEARER: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)


def secured_kafka(
    directory: Path,
    authority: Authority,
    *,
    client_certificates: bool = False,
    settings: Mapping[str, str] | None = None,
) -> ApacheKafka:
    """A broker whose listener takes TLS and a login, by any of MECHANISMS; with
    `client_certificates` TLS alone, which then says who a client is."""
    server = authority.sign("kafka")
    users = " ".join(f'user_{name}="{_jaas(secret)}"' for name, secret in USERS.items())
    protocol = "SSL" if client_certificates else "SASL_SSL"
    listener = f"listener.name.{protocol.lower()}"
    wanted = {
        "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": protocol,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{listener}.plain.sasl.jaas.config": (
            f'{_PLAIN} username="broker" password="broker-secret" '
            f'user_broker="broker-secret" {users};'
        ),
        f"{listener}.scram-sha-256.sasl.jaas.config": _SCRAM,
        f"{listener}.scram-sha-512.sasl.jaas.config": _SCRAM,
        f"{listener}.oauthbearer.sasl.jaas.config": _BEARER,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
        "ssl.client.auth": "required" if client_certificates else "none",
        "super.users": "User:broker;User:ANONYMOUS",
        **(settings or {}),
    }
    scram = [
        f"{mechanism}=[name={name},password={secret}]"
        for name, secret in USERS.items()
        for mechanism in MECHANISMS
        if mechanism.startswith("SCRAM")
    ]
    made = ApacheKafka(directory, settings=wanted, protocol=protocol, scram=scram, heap="512m")
    with (directory / "log4j.properties").open("a") as logging:
        logging.write("log4j.logger.kafka.network.Processor=DEBUG\n")  # whom it cuts off, and why
    return made


def unsigned_token(user: str, *, seconds: float = 3600) -> str:
    """Of the sort that Apache Kafka believes as long as nobody tells it whom to believe."""
    now = time.time()
    said = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + seconds})
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()) for each in said]
    return b".".join(part.rstrip(b"=") for part in parts).decode() + "."


def _jaas(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
