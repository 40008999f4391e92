"""Who a client's certificate stands for: its common name, or what rules make of its subject.

A subject is written as RFC 2253 has it, and as Kafka's rules and ACLs expect it, the last part of
it first:

    CN=agent-7,OU=Logs,O=Example
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

_SHORT: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_ESCAPED: Final = re.compile(r'[,+"\\<>;=]|^[ #]| $')
_LONGEST: Final = 255

Certificate = Mapping[str, Any]  # as `ssl.SSLSocket.getpeercert` gives it


class NameRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pattern for a subject, and the name that it stands for."""

    subject: str
    """A regular expression that all of `CN=…,OU=…,O=…` must match."""
    name: str = r"\1"
    """Whom it stands for; `\\1` is what the first group has matched."""

    def __post_init__(self) -> None:
        try:
            found = re.compile(f"{self.subject}|").match("")
            assert found is not None
            found.expand(self.name)
        except (re.error, IndexError) as error:
            raise ValueError(f"`subject: {self.subject}`, `name: {self.name}`: {error}") from None


def certificate_name(certificate: Certificate, rules: Sequence[NameRule]) -> str:
    """ "" if it stands for nobody: no rule matches, or there is not one common name."""
    if rules:
        subject = distinguished_name(certificate)
        matches = (each for rule in rules if (each := _by(rule, subject)) is not None)
        name = next(matches, "")
    else:
        names = [value for kind, value in _parts(certificate) if kind == "commonName"]
        name = names[0] if len(names) == 1 else ""
    return name if name.isprintable() and len(name) <= _LONGEST else ""


def distinguished_name(certificate: Certificate) -> str:
    """The subject, in one line."""
    return ",".join(
        f"{_SHORT.get(kind, kind)}={_ESCAPED.sub(lambda found: chr(92) + found[0], value)}"
        for kind, value in reversed(_parts(certificate))
    )


def _by(rule: NameRule, subject: str) -> str | None:
    matched = re.fullmatch(rule.subject, subject)
    return None if matched is None else matched.expand(rule.name)


def _parts(certificate: Certificate) -> list[tuple[str, str]]:
    return [part for relative in certificate.get("subject", ()) for part in relative]
