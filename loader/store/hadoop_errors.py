"""The meaning of Java's stack traces about Hadoop: one line that names the cause. Pure, except that
a hint names the folder of Hadoop's configuration.

A trace is what py4j or Spark passes on: `toString` of one exception, or a hundred lines in which
the cause is somewhere. Causes with an own sentence are searched for in all of it; otherwise the
first line is kept, with the exception's class, which says more than many messages.
"""

import os
import re
from collections.abc import Callable
from typing import Final

from loader.errors import (
    BlocksUnavailable,
    NoStagingFolder,
    NoTicket,
    QuotaExceeded,
    StoreError,
)
from loader.store.kerberos import no_ticket

# Py4j then fails without a Java exception. Stores on Hadoop filesystems use the same JVM.
JVM_ENDED: Final = (
    "Spark's JVM has ended; if its output in the log gives no reason, the kernel may have killed it"
    " for lack of memory"
)
_CONFIGURATION: Final = "HADOOP_CONF_DIR"
_LACKS: Final = {
    "UnknownHostException": "hdfs-site.xml there must name the nameservice",
    "No common protection layer": "core-site.xml there must have the NameNode's value of"
    " `hadoop.rpc.protection`",
    "Failed to specify server's Kerberos principal": "hdfs-site.xml and yarn-site.xml there must"
    " name the servers' principals, `dfs.namenode.kerberos.principal` and"
    " `yarn.resourcemanager.principal`",
}
_MOST_LETTERS: Final = 500
# A NameNode's exception arrives within `RemoteException(CLASS)`, unless its class is known here.
_CLASS: Final = re.compile(r"(?:[\w$]+\.)*RemoteException\(([\w.$]+)\)|([\w.$]+)")

_STAGING: Final = re.compile(
    r'Permission denied: user=(?P<user>[^,\n]+), access=\w+, inode="(?P<folder>[^"\n]+)"'
    r".*?\bat org\.apache\.spark\.deploy\.yarn\.Client\.",
    re.DOTALL,
)
_SPACE: Final = re.compile(
    r"DSQuotaExceededException: The DiskSpace quota of (?P<folder>[^\n]+?) is exceeded:"
    r" quota = \d+ B = (?P<quota>[^\n]+?) but diskspace consumed = \d+ B = (?P<used>[\d.]+ \w+)"
)
_NAMES: Final = re.compile(
    r"NSQuotaExceededException: The NameSpace quota \(directories and files\) of directory"
    r" (?P<folder>[^\n]+?) is exceeded: quota=(?P<quota>\d+) file count=(?P<used>\d+)"
)
_NOWHERE: Final = re.compile(
    r"could only be written to \d+ of the \d+ (?:minReplication|required) nodes[^\n]*?"
    r"There are (?P<running>\d+) datanode\(s\) running"
)
_NO_REPLACEMENT: Final = re.compile(
    r"Failed to replace a bad datanode on the existing pipeline"
    r"[^\n]*?original=\[(?P<nodes>[^\n]*?)\]\)"
)
_ALL_BAD: Final = re.compile(r"All datanodes \[(?P<nodes>[^\n]*?)\] are bad\. Aborting")
_MISSING_BLOCK: Final = re.compile(
    r"(?:BlockMissingException: Could not obtain block: \S+|Could not obtain the last block \S+)"
    r"(?:[^\n]*?file=(?P<file>/[^\n]*?)(?: No live nodes| Dead nodes|\n|$))?"
)
_ADDRESS: Final = re.compile(r"DatanodeInfoWithStorage\[([\w.:\[\]-]+?),")


def _staging(match: re.Match[str]) -> str:
    return (
        f"{match['user']} may not write to {match['folder']}, where Spark puts an application's"
        " files for YARN"
    )


def _space(match: re.Match[str]) -> str:
    return (
        f"the space quota of {match['folder']} ({match['quota']}) has no room for another block:"
        f" {match['used']} would be used, as HDFS counts each file that is being written as a whole"
        " block, times its replication"
    )


def _names(match: re.Match[str]) -> str:
    return (
        f"the quota of {match['folder']} allows {int(match['quota']):,} files and folders, and"
        f" {int(match['used']):,} are needed"
    )


def _nowhere(match: re.Match[str]) -> str:
    running = int(match["running"])
    if not running:
        return "no DataNode is running, so HDFS cannot store a block"
    return (
        f"none of the {running:,} running DataNodes accepts a block: they are full, or this host"
        " (or an executor's) does not reach them, or they have just gone away"
    )


def _no_replacement(match: re.Match[str]) -> str:
    return (
        f"a DataNode failed during a write to {_nodes(match)}, and no other DataNode can take its"
        " place; with so few DataNodes, let writes continue with the others: in `spark.conf`,"
        " `spark.hadoop.dfs.client.block.write.replace-datanode-on-failure.best-effort: true`"
    )


def _all_bad(match: re.Match[str]) -> str:
    return f"all DataNodes of a write failed before it ended: {_nodes(match)}"


def _missing_block(match: re.Match[str]) -> str:
    of_file = f" of {match['file']}" if match["file"] else ""
    return f"no running DataNode has a block{of_file}"


def _nodes(match: re.Match[str]) -> str:
    addresses = dict.fromkeys(_ADDRESS.findall(match["nodes"]))
    return ", ".join(list(addresses)[:5]) or "unknown DataNodes"


_KNOWN: Final[
    tuple[tuple[re.Pattern[str], type[StoreError], Callable[[re.Match[str]], str]], ...]
] = (
    (_STAGING, NoStagingFolder, _staging),
    (_SPACE, QuotaExceeded, _space),
    (_NAMES, QuotaExceeded, _names),
    (_NO_REPLACEMENT, BlocksUnavailable, _no_replacement),
    (_ALL_BAD, BlocksUnavailable, _all_bad),
    (_NOWHERE, BlocksUnavailable, _nowhere),
    (_MISSING_BLOCK, BlocksUnavailable, _missing_block),
)


def known_error(on: str, trace: str) -> StoreError | None:
    """The error with a sentence of its own, if the trace is about one."""
    if reason := no_ticket(trace):
        return NoTicket(f"{on}: {reason}")
    for pattern, kind, sentence in _KNOWN:
        if match := pattern.search(trace):
            return kind(f"{on}: {sentence(match)[:_MOST_LETTERS]}")
    return None


def store_error(on: str, trace: str) -> StoreError:
    """The error for what a Hadoop filesystem raised."""
    return known_error(on, trace) or StoreError(f"{on}: {first_line(trace)}{hint(trace)}")


def first_line(trace: str) -> str:
    """The first line of a Java exception, with its class but without the package's name. Of a
    NameNode's exception, the class that the NameNode raised."""
    line = next((line.strip() for line in trace.splitlines() if line.strip()), "no reason given")
    kind, separator, message = line.partition(": ")
    if match := _CLASS.fullmatch(kind):
        kind = (match[1] or match[2]).rpartition(".")[2]
    return f"{kind}{separator}{message}"[:_MOST_LETTERS]


def hint(trace: str) -> str:
    """What Hadoop's configuration on this host lacks, if Java's message is about that."""
    cure = next((cure for words, cure in _LACKS.items() if words in trace), "")
    folder = os.environ.get(_CONFIGURATION) or "not set"
    return f" ({_CONFIGURATION} is {folder}: {cure})" if cure else ""
