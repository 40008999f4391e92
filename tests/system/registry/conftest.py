"""Fixtures of the registry's system tests: subjects, and Confluent's clients."""

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from harness.penstock.registry import RegistryProcess


@pytest.fixture
def subject() -> str:
    """A name that no other test uses."""
    return f"subject-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(running_registry: RegistryProcess) -> Iterator[SchemaRegistryClient]:
    """Confluent's client for Python, with its default settings."""
    with SchemaRegistryClient({"url": running_registry.url}) as client:
        yield client
