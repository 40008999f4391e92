"""Whom certificates stand for."""

import pytest

from ground.tls.certificate_names import NameRule, certificate_name, distinguished_name

SHOWN = {
    "subject": (
        (("organizationName", "Example, Inc."),),
        (("organizationalUnitName", "Logs"),),
        (("commonName", "agent-7"),),
    )
}


def test_the_subject_is_written_as_kafka_writes_it() -> None:
    assert distinguished_name(SHOWN) == r"CN=agent-7,OU=Logs,O=Example\, Inc."


def test_without_rules_it_is_the_one_common_name() -> None:
    assert certificate_name(SHOWN, ()) == "agent-7"
    assert certificate_name({"subject": ((("organizationName", "x"),),)}, ()) == ""
    two = {"subject": ((("commonName", "a"),), (("commonName", "admin"),))}
    assert certificate_name(two, ()) == ""
    assert certificate_name({"subject": ((("commonName", "a\nb"),),)}, ()) == ""
    assert certificate_name({}, ()) == ""


def test_the_first_rule_that_matches_all_of_it() -> None:
    rules = (
        NameRule(subject=r"CN=([^,]+),OU=Brokers,.*"),
        NameRule(subject=r"CN=([^,]+),OU=Logs,.*", name=r"logs/\1"),
        NameRule(subject=r".*", name="anybody"),
    )
    assert certificate_name(SHOWN, rules) == "logs/agent-7"
    assert certificate_name(SHOWN, rules[:1]) == ""
    assert certificate_name(SHOWN, rules[2:]) == "anybody"
    assert certificate_name(SHOWN, (NameRule(subject=r"CN=(agent)"),)) == ""


@pytest.mark.parametrize(("subject", "name"), [("CN=(", "x"), ("CN=.*", r"\1"), ("(?i)cn", r"\2")])
def test_rules_that_are_none(subject: str, name: str) -> None:
    with pytest.raises(ValueError, match="`subject: "):
        NameRule(subject=subject, name=name)


@pytest.mark.parametrize("name", ["x,OU=Logs,O=We", "x+OU=Logs,C=DE", "x\\,OU=Logs,"])
def test_a_common_name_cannot_pretend_to_be_more_of_the_subject(name: str) -> None:
    shown = {"subject": ((("organizationName", "We"),), (("commonName", name),))}
    assert certificate_name(shown, (NameRule(subject=r"CN=([a-z]+),OU=Logs,.*"),)) == ""
