"""The pack of the environment that these tests run in, made once."""

import pytest

from loader.spark.packing import PackedEnvironment, pack_environment


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> PackedEnvironment:
    return pack_environment(tmp_path_factory.mktemp("cache") / "penstock")
