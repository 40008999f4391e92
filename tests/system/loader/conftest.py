"""Fixtures of whole loads, shared with tests/loader."""

from tests.loader.conftest import application, config

__all__ = ["application", "config"]
