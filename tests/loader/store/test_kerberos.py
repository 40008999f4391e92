"""What a Hadoop that wants a ticket says, and what of it is told."""

import pytest

from ground.logins.kerberos import Cure
from loader.errors import NoStagingFolder, NoTicket, SparkFailed, cure_of
from loader.spark.job import failure
from loader.store.kerberos import no_ticket

REMOTE = (
    "java.io.IOException: DestHost:destPort namenode:8020 , LocalHost:localPort a/127.0.0.1:0. "
    "Failed on local exception: java.io.IOException: "
)
GSS = "javax.security.sasl.SaslException: GSS initiate failed [Caused by GSSException: "


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            f"{REMOTE}{GSS}No valid credentials provided (Mechanism level: Failed to find any "
            "Kerberos tgt)]",
            "configure `kerberos`, or run `kinit`",
        ),
        (
            f"{REMOTE}org.apache.hadoop.security.AccessControlException: Client cannot "
            "authenticate via:[TOKEN, KERBEROS]",
            "configure `kerberos`, or run `kinit`",
        ),
        (f"{GSS}x (Mechanism level: Clock skew too great (37) - PROCESS_TGS)]", Cure.CLOCKS),
        (f"{GSS}x (Mechanism level: Server not found in Kerberos database (7))]", Cure.NO_SERVICE),
        (f"{GSS}x (Mechanism level: Connection refused (Connection refused))]", Cure.NO_KDC),
        (
            "org.apache.hadoop.security.KerberosAuthException: failure to login: for principal: "
            "me@X javax.security.auth.login.LoginException: Unable to obtain password from user",
            "configure `kerberos`, or run `kinit`",
        ),
    ],
)
def test_a_ticket_that_is_missing(said: str, told: str) -> None:
    assert told in no_ticket(f"An error occurred while calling o1.x.\n: {said}\n\tat a.B.c(D:1)")
    error = failure("starting Spark", said)
    assert isinstance(error, NoTicket)
    assert str(error).startswith("starting Spark: no Kerberos ticket")


@pytest.mark.parametrize(
    "said",
    [
        "Token has expired, current time: 2026-11-30 17:25:41,989+0000 expected renewal time: 2026",
        "token (token for me: HDFS_DELEGATION_TOKEN owner=me@X) can't be found in cache",
    ],
)
def test_a_token_that_has_expired(said: str) -> None:
    kind = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
    line = "a: a token of HDFS has expired: Spark gets new ones only with `kerberos` configured"
    for trace in (f"{kind}: {said}", f"org.apache.hadoop.ipc.RemoteException({kind}): {said}"):
        assert str(failure("a", trace)) == line
    # Hadoop's client gets a block's token anew by itself.
    assert no_ticket(f"{kind}: Block token with block_token_identifier (x) is expired.") == ""


def test_what_has_nothing_to_do_with_tickets() -> None:
    said = "java.net.ConnectException: Connection refused"
    assert no_ticket(said) == ""
    assert type(failure("starting Spark", said)) is SparkFailed


DENIED = (
    "org.apache.hadoop.security.AccessControlException: Permission denied: user=me, access=WRITE,"
    ' inode="/user":hdfs:supergroup:drwxr-xr-x'
)


def test_a_user_without_a_home() -> None:
    """It is Spark's own folder for an application on YARN, not the root."""
    said = f"{DENIED}\n\tat a.B.c(D:1)\n\tat org.apache.spark.deploy.yarn.Client.x(Client.scala:1)"
    error = failure("starting Spark", said)
    assert isinstance(error, NoStagingFolder)
    assert str(error).startswith("starting Spark: me may not write to /user, where Spark puts")
    assert "`hdfs dfs -chown NAME /user/NAME`" in cure_of(error, "")
    assert type(failure("t: landing", DENIED)) is SparkFailed


def test_a_server_without_a_principal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop/conf")
    said = "java.io.IOException: Failed to specify server's Kerberos principal name"
    line = "/etc/hadoop/conf: hdfs-site.xml and yarn-site.xml there must name the servers'"
    assert line in str(failure("starting Spark", said))
