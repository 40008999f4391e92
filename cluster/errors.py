"""Errors of the shared map, in one tree.

    ClusterError
    ├── BadAddress          invalid `zookeeper: …`
    ├── Unavailable         ZooKeeper does not answer; a write did not happen
    │   ├── NobodyThere     nor has it ever: the address may be wrong
    │   └── Unanswered      the connection broke during a write: it may have happened
    ├── NotAllowed          ZooKeeper denies access: another secret, or an unknown login
    ├── NodeUnreadable      a node has contents that this release cannot read
    ├── MapMissing          ZooKeeper was wiped or replaced: the nodes of every cluster are gone
    ├── Conflict            a compare-and-set failed: the node was changed concurrently
    │   └── Fenced          there is, or may be, a newer controller, group coordinator or partition
    │                       owner: this one must stop
    ├── BrokerIdTaken       another live broker has this id
    ├── InvalidTopicName    not allowed by Kafka's rules
    ├── InvalidUserName     not allowed for a user
    ├── InvalidGroupName    not allowed for a group
    ├── OtherGroupKind      the group has members of another kind
    ├── GroupHasMembers     not allowed for an active group
    ├── GroupTooLarge       the members need more space than a node has
    ├── UserExists
    ├── UnknownUser         or a user without a password for the mechanism
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

Functions of this package raise nothing else; an exception of kazoo that escapes is a bug.
"""

from enum import Enum

from cluster.values import BrokerInfo


class Cause(Enum):
    """The way in which a node differs from what a write expected."""

    EXISTS = "exists already"
    MISSING = "does not exist"
    CHANGED = "has been changed meanwhile"
    NOT_EMPTY = "has nodes below it"


class ClusterError(Exception):
    """Base class of the package's errors."""


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
    """A node was not as a write expected. `path` names the node; `cause` says how it differed."""

    def __init__(self, message: str, path: str, cause: Cause) -> None:
        super().__init__(message)
        self.path = path
        self.cause = cause


class Fenced(Conflict):
    pass


class BrokerIdTaken(ClusterError):
    """The id is in use; `existing` is the conflicting registration."""

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
