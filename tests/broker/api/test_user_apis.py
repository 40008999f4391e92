"""Users over Kafka's APIs 50 and 51, by librdkafka's admin client and raw."""

import warnings
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from broker.api.alter_user_scram_credentials import MOST_USERS
from cluster.records import users
from ground.logins import scram
from harness.processes.waiting import wait_until
from tests.broker.api.requests import alter_users, deletion, upsertion
from tests.broker.api.running_broker import RawClient, RunningBroker
from wire.errors import ErrorCode
from wire.messages import describe_user_scram_credentials
from wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

with warnings.catch_warnings():
    # It reads its schemas in a way that Python 3.11 calls outdated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)

SHA_512 = ScramMechanism.SCRAM_SHA_512


@pytest.fixture(scope="module")
def admin(running: RunningBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{running.port}"})


def described(client: RawClient, *names: str) -> dict[str, tuple[ErrorCode, list[tuple[int, int]]]]:
    asked = tuple(UserName(name=name) for name in names) or None
    request = DescribeUserScramCredentialsRequest(users=asked)
    answer = client.ask(describe_user_scram_credentials.API, 0, request)
    assert answer.error_code is ErrorCode.none
    return {
        each.user: (
            each.error_code,
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in answer.results
    }


def test_by_librdkafka(admin: AdminClient, running: RunningBroker) -> None:
    for mechanism in (ScramMechanism.SCRAM_SHA_256, SHA_512):
        info = ScramCredentialInfo(mechanism, 8192)
        wanted = UserScramCredentialUpsertion("erika", info, b"pass word", b"some salt")
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(30)
    kept = running.broker.users.users["erika"]  # it goes by it before it answers
    assert all(each.matches("pass word") for each in kept.values())
    assert not any(each.matches("password") for each in kept.values())
    (found,) = [
        each.result(30) for each in admin.describe_user_scram_credentials(["erika"]).values()
    ]
    assert found.user == "erika"
    assert {(each.mechanism, each.iterations) for each in found.scram_credential_infos} == {
        (ScramMechanism.SCRAM_SHA_256, 8192),
        (SHA_512, 8192),
    }
    everybody = admin.describe_user_scram_credentials().result(30)
    assert "erika" in everybody
    for mechanism in (ScramMechanism.SCRAM_SHA_256, SHA_512):
        removal = UserScramCredentialDeletion("erika", mechanism)
        for done in admin.alter_user_scram_credentials([removal]).values():
            done.result(30)
    for done in admin.describe_user_scram_credentials(["erika"]).values():
        with pytest.raises(KafkaException) as error:
            done.result(30)
        assert error.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


def test_the_life_of_a_user(client: RawClient) -> None:
    ok = (ErrorCode.none, None)
    assert alter_users(client, upsertion("anna"), upsertion("ben")) == {"anna": ok, "ben": ok}
    assert alter_users(client, upsertion("anna", iterations=5000)) == {"anna": ok}
    assert described(client, "anna", "ben") == {
        "anna": (ErrorCode.none, [(2, 5000)]),
        "ben": (ErrorCode.none, [(2, 4096)]),
    }
    everybody = described(client)
    assert everybody.keys() >= {"anna", "ben"}
    assert list(everybody) == sorted(everybody)
    for size in (1, 20, 63, 1024):  # whatever salted it, as in Kafka
        assert alter_users(client, upsertion("anna", salted_password=b"s" * size)) == {"anna": ok}
    both = (deletion("anna"), upsertion("anna", mechanism=1, salted_password=b"s" * 32))
    assert alter_users(client, *both) == {"anna": ok}
    assert described(client, "anna") == {"anna": (ErrorCode.none, [(1, 4096)])}
    assert alter_users(client, deletion("anna", 1)) == {"anna": ok}
    assert described(client, "anna") == {"anna": (ErrorCode.resource_not_found, [])}


@pytest.mark.parametrize(
    ("altered", "code", "words"),
    [
        (upsertion("x", iterations=4095), "unacceptable_credential", "Too few"),
        (upsertion("x", iterations=16385), "unacceptable_credential", "Too many"),
        (upsertion("x", iterations=-1), "unacceptable_credential", "Too few"),
        (upsertion(""), "unacceptable_credential", "must not be empty"),
        (upsertion("x", mechanism=3), "unsupported_sasl_mechanism", "Unknown"),
        (upsertion("x", mechanism=0), "unsupported_sasl_mechanism", "Unknown"),
        (upsertion("x", salt=b""), "unacceptable_credential", "salt"),
        (upsertion("x", salt=b"s" * 1025), "unacceptable_credential", "salt"),
        (upsertion("x", salted_password=b""), "unacceptable_credential", "0 bytes"),
        (upsertion("x", salted_password=b"s" * 1025), "unacceptable_credential", "1025 bytes"),
        (upsertion("."), "unacceptable_credential", "cannot be named"),
        (upsertion("a\nb"), "unacceptable_credential", "cannot be named"),
        (upsertion("x" * 129), "unacceptable_credential", "129 characters"),
        (deletion("x"), "resource_not_found", "does not exist"),
        (deletion("x", 9), "unsupported_sasl_mechanism", "Unknown"),
        (deletion(""), "unacceptable_credential", "empty"),
    ],
)
def test_what_is_refused(client: RawClient, altered: Any, code: str, words: str) -> None:
    answer = alter_users(client, altered, upsertion("other"))
    assert answer.pop("other") == (ErrorCode.none, None)
    ((found, message),) = answer.values()
    assert found is ErrorCode[code]
    assert message is not None
    assert words in message
    if altered.name:
        assert described(client, altered.name)[altered.name][0] is ErrorCode.resource_not_found


def test_twice_in_one_request(client: RawClient) -> None:
    twice = (upsertion("x"), deletion("x"))
    assert alter_users(client, *twice)["x"][0] is ErrorCode.duplicate_resource
    assert described(client, "x", "x") == {"x": (ErrorCode.duplicate_resource, [])}
    assert described(client, "", "") == {"": (ErrorCode.resource_not_found, [])}


def test_all_of_a_user_or_nothing(client: RawClient) -> None:
    half = (upsertion("x"), deletion("x", 1))
    assert alter_users(client, *half)["x"][0] is ErrorCode.resource_not_found
    assert described(client, "x")["x"][0] is ErrorCode.resource_not_found


def test_too_many_at_once(client: RawClient) -> None:
    answer = alter_users(client, *(upsertion(f"many{number}") for number in range(MOST_USERS + 1)))
    assert {code for code, _ in answer.values()} == {ErrorCode.invalid_request}
    assert described(client, "many0")["many0"][0] is ErrorCode.resource_not_found


def test_what_another_wrote_is_seen(client: RawClient, running: RunningBroker) -> None:
    made = scram.ScramCredential.of_password(
        scram.ScramMechanism.SHA_512, "password", b"salt", 4096
    )
    users.alter(running.broker.session, "elsewhere", lambda _: {made.mechanism: made})
    wait_until(lambda: described(client, "elsewhere")["elsewhere"][0] is ErrorCode.none)
