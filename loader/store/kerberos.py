"""The loader's login to a Hadoop with Kerberos, and the meaning of Kerberos' errors.

The JVM logs in with the keytab before Spark is started in it. While the JVM lives, a Hadoop thread
gets a new ticket when four fifths of the old one's lifetime are over. Tasks in that JVM need
nothing else. Executors of YARN and Kubernetes receive tokens from Spark, which gets and renews them
with the same principal and keytab.

If Spark alone did this (`spark.kerberos.*`), a failed login would be a stack trace and the end of
the JVM.
"""

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from ground.logins.kerberos import Cure, why_unreadable
from loader.config import Kerberos
from loader.errors import LoaderError, NoTicket
from loader.store.filesystems import hadoop_configuration

_RENEWED: Final = "hadoop.kerberos.keytab.login.autorenewal.enabled"
# Java's messages, from specific to general.
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
_EXPIRED_TOKEN: Final = re.compile(
    r"InvalidToken\)?: [Tt]oken\b[^\n]*(?:expired|can't be found in cache)"
)
_GET_ONE: Final = "configure `kerberos`, or run `kinit`; if done, check that the KDC answers"


def for_tokens(kerberos: Kerberos) -> Mapping[str, str]:
    """Spark's settings for obtaining tokens: for executors, and before its own work, which would
    otherwise need a ticket obtained by hand."""
    return {
        "spark.kerberos.principal": kerberos.principal,
        "spark.kerberos.keytab": kerberos.keytab,
    }


def log_in(jvm: Any, kerberos: Kerberos, settings: Mapping[str, str]) -> None:
    """Logs this JVM in, or renews its login. `settings` are Spark's. Raises LoaderError."""
    if reason_unreadable := why_unreadable(kerberos.keytab):
        raise NoTicket(reason_unreadable)
    configuration = hadoop_configuration(jvm, settings)
    configuration.setBoolean(_RENEWED, True)
    users = jvm.org.apache.hadoop.security.UserGroupInformation
    try:
        users.setConfiguration(configuration)
        if not users.isSecurityEnabled():
            raise LoaderError(
                "`kerberos` is configured, but not enabled in Hadoop: core-site.xml in "
                f"HADOOP_CONF_DIR ({os.environ.get('HADOOP_CONF_DIR') or 'not set'}), or "
                "`spark.hadoop.hadoop.security.authentication`, must set "
                "`hadoop.security.authentication` to `kerberos`"
            )
        if users.isLoginKeytabBased():
            users.getLoginUser().checkTGTAndReloginFromKeytab()
        else:
            users.loginUserFromKeytab(kerberos.principal, kerberos.keytab)
    except Py4JJavaError as error:
        reason = str(error.java_exception.toString()).rpartition("LoginException: ")[2]
        raise NoTicket(
            f"no Kerberos ticket for {kerberos.principal} with {kerberos.keytab}: "
            f"{_with_cure(' '.join(reason.split()))}"
        ) from error


def no_ticket(trace: str) -> str:
    """The message for a Java stack trace about a missing ticket, or an expired token; empty for any
    other trace."""
    if _EXPIRED_TOKEN.search(trace):
        return "a token of HDFS has expired: Spark gets new ones only with `kerberos` configured"
    match = _REFUSED.search(trace)
    if match is None:
        return ""
    line = trace[trace.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
    cure = _cure(line)
    if cure is None or cure is Cure.NO_KEY:  # without a keytab, Java mentions a password
        return f"no Kerberos ticket: {_GET_ONE}"
    return f"no Kerberos ticket: {cure}"


def _with_cure(message: str) -> str:
    cure = _cure(message)
    return f"{message} ({cure})" if cure else message


def _cure(message: str) -> Cure | None:
    return next((cure for words, cure in _CURES if words.search(message)), None)
