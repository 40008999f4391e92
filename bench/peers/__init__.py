"""The peers of the agent, in the order of the columns."""

from collections.abc import Mapping
from typing import Final

from bench.peers.filebeat import FILEBEAT
from bench.peers.peer import Peer
from bench.peers.rsyslog import RSYSLOG
from bench.peers.syslog_ng import SYSLOG_NG

PEERS: Final[Mapping[str, Peer]] = {peer.name: peer for peer in (RSYSLOG, SYSLOG_NG, FILEBEAT)}
