"""What is wrong with a configuration, in one line.

    broker.yaml:7: topic_defaults.retention_ms: unknown key; did you mean retention.ms?
"""


class ConfigurationError(Exception):
    """`where` is file and line (or the option), `key` the dotted path; both may be empty."""

    def __init__(self, where: str, key: str, message: str) -> None:
        super().__init__(": ".join(part for part in (where, key, message) if part))
        self.where = where
        self.key = key
