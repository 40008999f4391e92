"""What helps when Kerberos says no: the same words, whoever has asked for a ticket."""

from enum import StrEnum
from pathlib import Path


class Cure(StrEnum):
    """For the end of a sentence."""

    NO_PRINCIPAL = "the KDC knows no such principal: look at its name, and at its realm"
    NO_SERVICE = "the KDC knows no such service: it is asked for by the name in the address"
    NO_KEY = "the keytab has no key of this principal, or is none: `klist -k` shows whose it has"
    OLD_KEY = "the keytab does not have the key that the KDC has: export it again"
    REVOKED = "the KDC has locked this principal, or its time is over"
    CLOCKS = "the clocks of this host and of the KDC are too far apart: have both set by NTP"
    NO_KDC = "see that the KDC runs, and that krb5.conf has its address"
    NO_REALM = "krb5.conf (KRB5_CONFIG) must say where the realm's KDC is"
    ENDED = "its time is over: get another one by `kinit`, or configure a keytab"
    NONE = "get one by `kinit`, or configure a keytab"


def why_unreadable(keytab: str) -> str:
    """Why the file cannot be read; empty if it can. Those that ask for tickets speak of a key that
    is not there then, or of a ticket."""
    try:
        with Path(keytab).open("rb"):
            return ""
    except OSError as error:
        return f"the keytab {keytab} cannot be read: {(error.strerror or '').lower()}"
