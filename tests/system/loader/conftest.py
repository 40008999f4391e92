"""What tests of whole loads share, here as in tests/loader."""

from tests.loader.conftest import application, config

__all__ = ["application", "config"]
