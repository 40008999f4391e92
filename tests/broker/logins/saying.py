"""What tests of logins say, and to whom."""

from base64 import b64encode
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.logins.exchange import Exchange, StepResult
from broker.logins.known_users import KnownUsers
from client.connection.logins import Exchange as ClientsExchange
from cluster.records.users import Credentials, Users
from ground.logins.scram import FEWEST_ITERATIONS, ScramCredential, ScramMechanism

KEY: Final = b"k" * 32


def kept(password: str, *mechanisms: ScramMechanism) -> Credentials:
    return {
        mechanism: ScramCredential.of_password(
            mechanism, password, b"sixteen bytes, 16", FEWEST_ITERATIONS
        )
        for mechanism in mechanisms or tuple(ScramMechanism)
    }


def users(**passwords: str) -> Users:
    return MappingProxyType({name: kept(each) for name, each in passwords.items()})


def known(found: Mapping[str, Credentials]) -> KnownUsers:
    return KnownUsers(lambda: found, KEY)


async def log_in(saying: ClientsExchange, exchange: Exchange) -> StepResult:
    """What came of it when our own client talks with the broker's side. The client's refusals are
    raised, too."""
    data = next(saying)
    while True:
        said = await exchange.step(data)
        try:
            data = saying.send(said.answer)
        except StopIteration:
            return said


def base64(data: bytes) -> str:
    return b64encode(data).decode()
