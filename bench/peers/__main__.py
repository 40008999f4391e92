"""`python -m bench.peers [NAME]...`: builds the named peers, or all that have no package here.

Then prints the state of every peer.
"""

import sys
from typing import Final

from bench.figures.measurement import NotMeasured
from bench.peers import PEERS
from bench.peers.filebeat import FILEBEAT, make_filebeat
from bench.peers.syslog_ng import SYSLOG_NG, make_syslog_ng

_BUILDS: Final = {SYSLOG_NG.name: make_syslog_ng, FILEBEAT.name: make_filebeat}


def main() -> None:
    names = sys.argv[1:] or list(_BUILDS)
    if unknown_names := set(names) - set(_BUILDS):
        sys.exit(f"unknown: {', '.join(sorted(unknown_names))}; this builds {', '.join(_BUILDS)}")
    has_failed = False
    for name in names:
        build = _BUILDS[name]
        try:
            build()
        except NotMeasured as reason:
            print(f"{name}: {reason}", file=sys.stderr)
            has_failed = True
    for peer in PEERS.values():
        lack = peer.why_not()
        print(f"{peer.name:10} {peer.version() if lack is None else f'missing: {lack}'}")
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
