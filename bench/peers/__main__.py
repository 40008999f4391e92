"""`python -m bench.peers [NAME]...`: makes the peers that no package installs, or those named.

What is here then is told in a line for each.
"""

import sys
from typing import Final

from bench.figures.measurement import NotMeasured
from bench.peers import PEERS
from bench.peers.filebeat import FILEBEAT, make_filebeat
from bench.peers.syslog_ng import SYSLOG_NG, make_syslog_ng

_MADE: Final = {SYSLOG_NG.name: make_syslog_ng, FILEBEAT.name: make_filebeat}


def main() -> None:
    wanted = sys.argv[1:] or list(_MADE)
    if unknown := set(wanted) - set(_MADE):
        sys.exit(f"made here are {', '.join(_MADE)}, not {', '.join(sorted(unknown))}")
    failed = False
    for name in wanted:
        make = _MADE[name]
        try:
            make()
        except NotMeasured as why:
            print(f"{name}: {why}", file=sys.stderr)
            failed = True
    for peer in PEERS.values():
        why_not = peer.why_not()
        print(f"{peer.name:10} {peer.version() if why_not is None else f'not here: {why_not}'}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
