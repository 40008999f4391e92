"""Who a loader is to a Hadoop that wants Kerberos, and what Kerberos says no to.

The JVM logs in with the keytab before Spark is started in it, and a thread of Hadoop's gets a new
ticket when four fifths of the old one's life are over, for as long as the JVM lives. Tasks that run
in that JVM need nothing else. To executors of YARN and Kubernetes Spark hands tokens, which it gets
and renews by the same principal and keytab.

Left to Spark alone (`spark.kerberos.*`), who cannot log in would be told by a trace and a JVM that
ends.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from ground.kerberos import Cure, why_unreadable
from loader.config import Kerberos
from loader.errors import LoaderError, NoTicket

_HADOOPS: Final = "spark.hadoop."
_RENEWED: Final = "hadoop.kerberos.keytab.login.autorenewal.enabled"
# As Java has it, from the particular to the general.
_CURES: Final[tuple[tuple[re.Pattern[str], Cure], ...]] = (
    (re.compile(r"Client not found in Kerberos database"), Cure.NO_PRINCIPAL),
    (re.compile(r"Server not found in Kerberos database"), Cure.NO_SERVICE),
    (re.compile(r"Unable to obtain password from user"), Cure.NO_KEY),
    (re.compile(r"(?i)pre-?authentication|checksum failed|integrity check"), Cure.OLD_KEY),
    (re.compile(r"(?i)credentials have been revoked|entry in database has expired"), Cure.REVOKED),
    (re.compile(r"Clock skew too great"), Cure.CLOCKS),
    (re.compile(r"(?i)cannot (locate|get) (kdc|default realm)"), Cure.NO_REALM),
    (re.compile(r"(?i)connection refused|timed out|no route|unreachable"), Cure.NO_KDC),
)
_REFUSED: Final = re.compile(
    r"Client cannot authenticate via|GSS initiate failed|Failed to find any Kerberos"
    r"|SIMPLE authentication is not enabled|LoginException"
)
_GET_ONE: Final = "configure `kerberos`, or `kinit`; if that is done, see that the KDC answers"


def for_tokens(kerberos: Kerberos) -> Mapping[str, str]:
    """Spark's settings, with which it gets tokens: for executors, and before any work of its own,
    which would otherwise ask for a ticket that somebody has got by hand."""
    return {
        "spark.kerberos.principal": kerberos.principal,
        "spark.kerberos.keytab": kerberos.keytab,
    }


def log_in(jvm: Any, kerberos: Kerberos, settings: Mapping[str, str]) -> None:
    """In this JVM, or again in one that has; `settings` are Spark's. Raises LoaderError."""
    if why := why_unreadable(kerberos.keytab):
        raise NoTicket(why)
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    for key, value in settings.items():
        if key.startswith(_HADOOPS):
            configuration.set(key.removeprefix(_HADOOPS), value)
    configuration.setBoolean(_RENEWED, True)
    users = jvm.org.apache.hadoop.security.UserGroupInformation
    try:
        users.setConfiguration(configuration)
        if not users.isSecurityEnabled():
            raise LoaderError(
                "`kerberos` is configured, but Hadoop does not want it: set "
                "`hadoop.security.authentication` to `kerberos`, in the core-site.xml of "
                "HADOOP_CONF_DIR, or as `spark.hadoop.hadoop.security.authentication`"
            )
        if users.isLoginKeytabBased():
            users.getLoginUser().checkTGTAndReloginFromKeytab()
        else:
            users.loginUserFromKeytab(kerberos.principal, kerberos.keytab)
    except Py4JJavaError as error:
        said = str(error.java_exception.toString()).rpartition("LoginException: ")[2]
        raise NoTicket(
            f"no ticket of Kerberos for {kerberos.principal} with {kerberos.keytab}: "
            f"{_with_cure(' '.join(said.split()))}"
        ) from error


def no_ticket(said: str) -> str:
    """What Hadoop means that wants a ticket, of all that Java says; empty if that is something
    else."""
    found = _REFUSED.search(said)
    if found is None:
        return ""
    line = said[said.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0]
    cure = _cure(line)
    if cure is None or cure is Cure.NO_KEY:  # without a keytab, Java speaks of a password
        return f"no ticket of Kerberos that is good: {_GET_ONE}"
    return f"no ticket of Kerberos: {cure}"


def _with_cure(said: str) -> str:
    cure = _cure(said)
    return f"{said} ({cure})" if cure else said


def _cure(said: str) -> Cure | None:
    return next((cure for words, cure in _CURES if words.search(said)), None)
