"""Remedies for Kerberos errors, for clients and servers alike."""

from enum import StrEnum
from pathlib import Path


class Cure(StrEnum):
    """The remedy, for the end of a sentence."""

    NO_PRINCIPAL = "the KDC knows no such principal: check its name and its realm"
    NO_SERVICE = (
        "the KDC knows no such service: its name is derived from the host name in the address"
    )
    NO_KEY = "the keytab has no key for this principal, or is invalid: see `klist -k`"
    OLD_KEY = "the keytab's key differs from the KDC's: export it again"
    REVOKED = "the KDC has locked this principal, or it has expired"
    CLOCKS = "the clocks of this host and of the KDC differ too much: synchronize both by NTP"
    NO_KDC = "check that the KDC runs and that krb5.conf has its address"
    NO_REALM = "krb5.conf must name the realm's KDC"
    ENDED = "run `kinit` again, or configure a keytab"
    NONE = "run `kinit`, or configure a keytab"


def why_unreadable(keytab: str) -> str:
    """Returns why the keytab cannot be read, or "" if it can. Kerberos libraries instead report a
    missing key or ticket."""
    try:
        with Path(keytab).open("rb"):
            return ""
    except OSError as error:
        return f"the keytab {keytab} cannot be read: {(error.strerror or '').lower()}"
