"""Apache Kafka with TLS by an authority of the test, with every login mechanism, and with ACLs on
request.

Its users are in USERS; the broker is one of them, and may do everything. With a Kerberos realm,
GSSAPI is a mechanism too, and every principal there is a user.
"""

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.kafka.apache_kafka import QUICK_JVM, ApacheKafka
from harness.logins.certificates import Authority
from harness.logins.kdc import REALM, Kdc
from harness.logins.made_secrets import made_secret

USERS: Final = {
    "alice": made_secret("a secret that 'nobody' = uses"),
    "agent": made_secret("agent"),
}
_OWN: Final = made_secret("broker")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_BEARER: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)
_SERVICE: Final = "kafka/127.0.0.1"


def secured_kafka(
    directory: Path,
    authority: Authority,
    *,
    client_certificates: bool = False,
    settings: Mapping[str, str] | None = None,
    kdc: Kdc | None = None,
) -> ApacheKafka:
    """Returns a broker whose listener requires TLS and a login: by any of MECHANISMS and, with
    `kdc`, by GSSAPI. With `client_certificates` it requires only TLS, and the client's certificate
    identifies the client."""
    protocol = "SSL" if client_certificates else "SASL_SSL"
    listener = f"listener.name.{protocol.lower()}"
    all_settings = {
        **locks(authority, listener, {**USERS, "broker": _OWN}),
        "inter.broker.listener.name": protocol,
        "ssl.client.auth": "required" if client_certificates else "none",
        "super.users": "User:broker;User:ANONYMOUS",
        **({} if kdc is None else _gssapi(listener, kdc)),
        **(settings or {}),
    }
    kafka = ApacheKafka(
        directory,
        settings=all_settings,
        protocol=protocol,
        scram=scram_users(USERS),
        heap="512m",
        jvm=(*QUICK_JVM, *(() if kdc is None else kdc.java_options)),
    )
    with (directory / "log4j.properties").open("a") as logging:
        logging.write(
            "log4j.logger.kafka.network.Processor=DEBUG\n"
        )  # logs disconnected clients, and why
    return kafka


def locks(authority: Authority, listener: str, passwords: Mapping[str, str]) -> dict[str, str]:
    """Returns settings for TLS and for logins by any of MECHANISMS. The broker itself is the user
    `broker`."""
    server = authority.sign("kafka")
    users = " ".join(f'user_{name}="{jaas(secret)}"' for name, secret in passwords.items())
    broker_login = f'username="broker" password="{jaas(passwords["broker"])}"'
    return {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{listener}.plain.sasl.jaas.config": f"{_PLAIN_MODULE} {broker_login} {users};",
        f"{listener}.scram-sha-256.sasl.jaas.config": _SCRAM_MODULE,
        f"{listener}.scram-sha-512.sasl.jaas.config": _SCRAM_MODULE,
        f"{listener}.oauthbearer.sasl.jaas.config": _BEARER,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
        "ssl.client.auth": "none",
    }


def scram_users(passwords: Mapping[str, str]) -> list[str]:
    """Returns the users in the form in which Apache Kafka's storage tool takes initial users."""
    return [
        f"{mechanism}=[name={name},password={secret}]"
        for name, secret in passwords.items()
        for mechanism in MECHANISMS
        if mechanism.startswith("SCRAM")
    ]


def unsigned_token(user: str, *, seconds: float = 3600) -> str:
    """Returns a token that Apache Kafka accepts unless validation is configured."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + seconds})
    encoded_parts = [base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts]
    return b".".join(part.rstrip(b"=") for part in encoded_parts).decode() + "."


def _gssapi(listener: str, kdc: Kdc) -> Mapping[str, str]:
    keytab = kdc.keytab(_SERVICE)
    return {
        "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "GSSAPI"]),
        "sasl.kerberos.service.name": "kafka",
        f"{listener}.gssapi.sasl.jaas.config": (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{keytab}" principal="{_SERVICE}@{REALM}";'
        ),
    }


def jaas(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
