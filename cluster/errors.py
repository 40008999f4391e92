"""What can go wrong with the shared map, in one tree.

    ClusterError
    ├── BadAddress          `zookeeper: …` cannot be understood
    ├── Unavailable         ZooKeeper does not answer; a write did not happen
    │   ├── NobodyThere     nor has it ever: the address may be wrong
    │   └── Unanswered      the connection broke during a write: it may have happened
    ├── NotAllowed          ZooKeeper refuses: another secret, or a login that it does not know
    ├── NodeUnreadable      a node holds what this release cannot read
    ├── MapMissing          ZooKeeper was wiped or replaced: the nodes of every cluster are gone
    ├── Conflict            a compare-and-set lost: somebody else has changed the node
    │   └── Fenced          a newer controller, coordinator of a group or owner of a partition is
    │                       there, or may be: this one must stop
    ├── BrokerIdTaken       another live broker has this id
    ├── InvalidTopicName    a name that Kafka's rules forbid
    ├── InvalidUserName     a name that no user can have
    ├── InvalidGroupName    a name that no group can have
    ├── OtherGroupKind      the group has members of another kind
    ├── GroupHasMembers     what cannot be done to a group that is at work
    ├── GroupTooLarge       its members take more than a node may hold
    ├── UserExists
    ├── UnknownUser         or one who has no password for what was asked
    ├── TooManyUsers
    ├── TopicExists         also while a topic of that name is being deleted
    ├── UnknownTopic
    ├── MapDisagrees        `recover` found another cluster or topic id than the directory's
    └── EmbeddedError       an embedded ZooKeeper cannot run
        ├── NoJava
        ├── NoJars
        ├── PortTaken
        ├── DirectoryUnusable
        └── DidNotStart     it ended, or never answered; the message quotes its log

Functions of this package raise these and nothing else; an exception of kazoo's that escapes is a
bug here.
"""

from enum import Enum

from cluster.values import BrokerInfo


class Cause(Enum):
    """How a node differed from what a write expected of it."""

    EXISTS = "exists already"
    MISSING = "does not exist"
    CHANGED = "has been changed meanwhile"
    NOT_EMPTY = "has nodes below it"


class ClusterError(Exception):
    """Something about the shared map is not as it must be."""


class BadAddress(ClusterError):
    pass


class Unavailable(ClusterError):
    pass


class NobodyThere(Unavailable):
    pass


class Unanswered(Unavailable):
    pass


class NotAllowed(ClusterError):
    pass


class NodeUnreadable(ClusterError):
    pass


class MapMissing(ClusterError):
    pass


class Conflict(ClusterError):
    """`path` is the node that was not as expected, `cause` says how."""

    def __init__(self, message: str, path: str, cause: Cause) -> None:
        super().__init__(message)
        self.path = path
        self.cause = cause


class Fenced(Conflict):
    pass


class BrokerIdTaken(ClusterError):
    """`existing` is the registration that stands in the way."""

    def __init__(self, message: str, existing: BrokerInfo) -> None:
        super().__init__(message)
        self.existing = existing


class InvalidTopicName(ClusterError):
    pass


class InvalidUserName(ClusterError):
    pass


class InvalidGroupName(ClusterError):
    pass


class OtherGroupKind(ClusterError):
    pass


class GroupHasMembers(ClusterError):
    pass


class GroupTooLarge(ClusterError):
    pass


class UserExists(ClusterError):
    pass


class UnknownUser(ClusterError):
    pass


class TooManyUsers(ClusterError):
    pass


class TopicExists(ClusterError):
    pass


class UnknownTopic(ClusterError):
    pass


class MapDisagrees(ClusterError):
    pass


class EmbeddedError(ClusterError):
    pass


class NoJava(EmbeddedError):
    pass


class NoJars(EmbeddedError):
    pass


class PortTaken(EmbeddedError):
    pass


class DirectoryUnusable(EmbeddedError):
    pass


class DidNotStart(EmbeddedError):
    pass
