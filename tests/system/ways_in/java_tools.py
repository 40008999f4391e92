"""Apache Kafka's command line tools with properties for each listener of a broker."""

from pathlib import Path
from typing import Final

from harness.kafka.kafka_tools import Ended, KafkaTools
from harness.penstock.secured_broker import SecuredBroker
from tests.system.ways_in.doors import BEARER, Door, Way, way

_LOGINS: Final = "org.apache.kafka.common.security"
_MODULES: Final = {
    "PLAIN": f"{_LOGINS}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_LOGINS}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_LOGINS}.scram.ScramLoginModule",
    BEARER: f"{_LOGINS}.oauthbearer.OAuthBearerLoginModule",
}
_READS_TOKENS: Final = f"{_LOGINS}.oauthbearer.OAuthBearerLoginCallbackHandler"
_LONG: Final = "60000"  # milliseconds; who is refused does not wait for them


class JavaTools:
    """The tools of one release, in a directory of their own."""

    def __init__(self, tools: KafkaTools, secured: SecuredBroker, directory: Path) -> None:
        self.version = tools.version
        self._tools = tools
        self._secured = secured
        self._properties = directory / "client.properties"
        self._token = directory / "token"
        tools.allow_tokens_from(self._token.as_uri())

    def run(self, script: str, door: Door | Way, *arguments: str, stdin: str = "") -> Ended:
        """Runs a tool at one of the broker's listeners, or with the caller's properties."""
        come = way(self._secured, door) if isinstance(door, Door) else door
        self._token.write_text(come.secret)
        said = "".join(f"{name}={value}\n" for name, value in self._settings(come).items())
        self._properties.write_text(said)
        where = ("--bootstrap-server", come.address, "--command-config", str(self._properties))
        return self._tools.run(script, *where, *arguments, stdin=stdin)

    def write(self, door: Door | Way, topic: str, line: str) -> Ended:
        """Waits until the message is written."""
        limits = ("--max-block-ms", _LONG, "--request-timeout-ms", _LONG)
        return self.run(
            "kafka-console-producer", door, "--topic", topic, "--sync", *limits, stdin=line
        )

    def read(self, door: Door | Way, topic: str) -> Ended:
        """The first message."""
        limits = ("--max-messages", "1", "--timeout-ms", _LONG)
        where = ("--topic", topic, "--partition", "0", "--offset", "earliest")
        return self.run("kafka-console-consumer", door, *where, *limits)

    def _settings(self, come: Way) -> dict[str, str]:
        protocol = ("SASL_" if come.mechanism else "") + ("SSL" if come.ca else "PLAINTEXT")
        found = {"security.protocol": protocol}
        if come.ca:
            found["ssl.truststore.type"] = "PEM"
            found["ssl.truststore.location"] = come.ca
        if come.certificate_and_key:
            found["ssl.keystore.type"] = "PEM"
            found["ssl.keystore.location"] = come.certificate_and_key
        if come.mechanism:
            found["sasl.mechanism"] = come.mechanism
            found["sasl.jaas.config"] = self._login(come)
        if come.mechanism == BEARER:
            found["sasl.login.callback.handler.class"] = _READS_TOKENS
            found["sasl.oauthbearer.token.endpoint.url"] = self._token.as_uri()
        return found

    def _login(self, come: Way) -> str:
        who = f' username="{come.user}" password="{come.secret}"'
        return f"{_MODULES[come.mechanism]} required{'' if come.mechanism == BEARER else who};"
