"""`python -m tests.fleet.up --hosts 3`: hosts for a developer, until Ctrl-C.

They are the ones that tests get: a Debian each, with systemd and sshd, on a network of their own
that ends with this command. It prints how to reach them, and where an inventory of them lies.
"""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from harness.hosts.host_roots import CannotMake
from harness.hosts.hosts import CONTROLLER, Host
from tests.fleet.fleet import Fleet


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = arguments.names or [f"host-{number + 1}" for number in range(arguments.hosts)]
    wanted = {name: Host(java=name in arguments.java or "all" in arguments.java) for name in names}
    with tempfile.TemporaryDirectory(prefix="penstock-fleet-") as directory:
        began = time.monotonic()
        try:
            with Fleet(Path(directory), wanted) as fleet:
                print(f"{len(names)} hosts after {time.monotonic() - began:.0f} s\n")
                _tell(fleet)
                signal.pause()
        except KeyboardInterrupt:
            return 0
        except CannotMake as missing:
            print(missing, file=sys.stderr)
            return 1
    return 0


def _tell(fleet: Fleet) -> None:
    """What a developer types next."""
    inventory = fleet.inventory({"all": {"hosts": dict.fromkeys(fleet.hosts)}})
    inside = " ".join(fleet.inside[:-1])
    name = next(iter(fleet.hosts))
    for host, address in fleet.addresses.items():
        print(f"  {address}  {host}")
    print(f"\ninventory (copy it, and add groups): {inventory}")
    print("\na shell from where the hosts are seen:")
    print(f"  {inside} bash")
    print(f"this machine is {CONTROLLER} there; in that shell:")
    print(f"  ssh {' '.join(fleet.ssh_options)} root@{name}")
    print(f"  ansible-playbook -i {inventory} PLAYBOOK")
    print("\nCtrl-C ends all of it", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet.up", description=__doc__)
    parser.add_argument("--hosts", type=int, default=3, help="how many (%(default)s)")
    parser.add_argument("--names", nargs="+", help="their names, in place of a number")
    parser.add_argument("--java", nargs="+", default=[], help="who has a JRE; `all`: everybody")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
