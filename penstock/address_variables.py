"""The environment's variables that say where a pipeline is.

Each is what an option's default would be: `PENSTOCK_BOOTSTRAP` that of `--bootstrap`, and so on. An
option that is given counts more, and so does a configuration file; an empty variable is none.
`penstock up` writes all of them into a file for `.`, so that commands find what it runs.
"""

from typing import Final

BOOTSTRAP: Final = "PENSTOCK_BOOTSTRAP"
REGISTRY: Final = "PENSTOCK_REGISTRY"
AUDIT: Final = "PENSTOCK_AUDIT"
AGENT: Final = "PENSTOCK_AGENT"
BROKER_HTTP: Final = "PENSTOCK_BROKER_HTTP"
