"""The name of a client certificate: its common name, or the result of rules for its subject.

A subject is written as in RFC 2253, which Kafka's rules and ACLs expect, the last part first:

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

Certificate = Mapping[str, Any]  # as from `ssl.SSLSocket.getpeercert`


class NameRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Maps subjects that match a pattern to a name."""

    subject: str
    """A regular expression that all of `CN=…,OU=…,O=…` must match."""
    name: str = r"\1"
    """The name; `\\1` is what the first group matched."""

    def __post_init__(self) -> None:
        try:
            match = re.compile(f"{self.subject}|").match("")
            assert match is not None
            match.expand(self.name)
        except (re.error, IndexError) as error:
            raise ValueError(f"`subject: {self.subject}`, `name: {self.name}`: {error}") from None


def certificate_name(certificate: Certificate, rules: Sequence[NameRule]) -> str:
    """Returns the name; empty if no rule matches, or there is not exactly one common name."""
    if rules:
        subject = distinguished_name(certificate)
        matches = (name for rule in rules if (name := _by(rule, subject)) is not None)
        name = next(matches, "")
    else:
        names = [value for kind, value in _parts(certificate) if kind == "commonName"]
        name = names[0] if len(names) == 1 else ""
    return name if name.isprintable() and len(name) <= _LONGEST else ""


def distinguished_name(certificate: Certificate) -> str:
    """Returns the subject in one line."""
    return ",".join(
        f"{_SHORT.get(kind, kind)}={_ESCAPED.sub(lambda match: chr(92) + match[0], value)}"
        for kind, value in reversed(_parts(certificate))
    )


def _by(rule: NameRule, subject: str) -> str | None:
    match = re.fullmatch(rule.subject, subject)
    return None if match is None else match.expand(rule.name)


def _parts(certificate: Certificate) -> list[tuple[str, str]]:
    return [part for relative_name in certificate.get("subject", ()) for part in relative_name]
