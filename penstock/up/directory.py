"""The directory of a pipeline, made ready for a start. A crash at any point is mended by the next.

What a user keeps there is never touched: data, and all of `inputs.d` but `follow.yaml`.
"""

from collections.abc import Sequence

from penstock.up.errors import DirectoryUnusable
from penstock.up.followed import Follow, follow
from penstock.up.places import Addresses, Places, Ports
from penstock.up.remembered import remember
from penstock.up.replacing import replace
from penstock.up.settings import document, settings


def prepare(places: Places, ports: Ports, follows: Sequence[Follow]) -> None:
    """Raises DirectoryUnusable."""
    try:
        for folder in (places.config("").parent, places.log("").parent, places.inputs):
            folder.mkdir(parents=True, exist_ok=True)
        places.warehouse.mkdir(exist_ok=True)
        for program, content in settings(places, ports).items():
            replace(places.config(program), document(content))
        if follows:
            follow(places, follows)
        replace(places.environment, environment(Addresses.of(ports)))
        remember(places, ports)
    except OSError as error:
        raise DirectoryUnusable(
            f"{error.filename or places.directory} cannot be written: {error.strerror}"
        ) from None


def environment(addresses: Addresses) -> str:
    """For the shell's `.`: all commands talk to this pipeline then."""
    return (
        "# . this file, and all penstock commands talk to this pipeline.\n"
        f"export PENSTOCK_BOOTSTRAP={addresses.brokers}\n"
        f"export PENSTOCK_REGISTRY={addresses.registry}\n"
        f"export PENSTOCK_AUDIT={addresses.audit}\n"
        f"export PENSTOCK_AGENT={addresses.agent}\n"
        f"export PENSTOCK_BROKER_HTTP={addresses.broker_http}\n"
    )
