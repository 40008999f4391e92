"""Environment variables that replace the options for a pipeline's addresses, and the variable that
names a client profile. An empty variable counts as not set.

`penstock up` writes them into a file to be sourced, so that commands find its programs.
"""

from typing import Final

BOOTSTRAP: Final = "PENSTOCK_BOOTSTRAP"
REGISTRY: Final = "PENSTOCK_REGISTRY"
AUDIT: Final = "PENSTOCK_AUDIT"
AGENT: Final = "PENSTOCK_AGENT"
BROKER_HTTP: Final = "PENSTOCK_BROKER_HTTP"
PROFILE: Final = "PENSTOCK_PROFILE"
UP: Final = "PENSTOCK_UP"  # the directory of the `penstock up` that has these addresses
