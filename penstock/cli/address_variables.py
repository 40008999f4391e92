"""The environment's variables that say where a pipeline is, and what is said where nobody answers.

Each is what an option's default would be: `PENSTOCK_BOOTSTRAP` that of `--bootstrap`, and so on. An
option that is given counts more, and so does a configuration file; an empty variable is none.
`penstock up` writes all of them into a file for `.`, so that commands find what it runs.

Whoever named an address knows of another; whoever did not may have nothing that runs yet, or have
it at other ports.
"""

from typing import Final

BOOTSTRAP: Final = "PENSTOCK_BOOTSTRAP"
REGISTRY: Final = "PENSTOCK_REGISTRY"
AUDIT: Final = "PENSTOCK_AUDIT"
AGENT: Final = "PENSTOCK_AGENT"
BROKER_HTTP: Final = "PENSTOCK_BROKER_HTTP"


def what_to_do(address: str, usual: str, option: str, variable: str) -> str:
    """To be put behind what went wrong; empty for an address that was named."""
    if address != usual:
        return ""
    return (
        f": `penstock up` starts everything on this machine; what runs elsewhere is found with "
        f"{option}, or {variable}"
    )
