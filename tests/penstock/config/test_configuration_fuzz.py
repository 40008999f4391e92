"""Whatever is in a configuration file, it loads or gets one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.configuration import ConfigurationError, load
from tests.penstock.config.test_configuration import Program

_yaml_bits = st.sampled_from(
    [
        *(
            "id",
            "port",
            "inputs",
            "topic",
            "a",
            ": ",
            "- ",
            "\n",
            "  ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "1",
        ),
        *('"', "'", "&a", "*a", "!!x", "${", "|", ">", "#", "%", "?", "null", "\t", "---", "\x00"),
    ]
)


@given(
    text=st.one_of(
        st.lists(_yaml_bits, max_size=30).map("".join).map(str.encode), st.binary(max_size=60)
    ),
    override=st.one_of(st.none(), st.text(max_size=30)),
)
def test_whatever_is_in_the_file_it_loads_or_gets_one_line(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, override: str | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "anything.yaml"
    path.write_bytes(text)
    line = "loaded"
    try:
        load(Program, path, [] if override is None else [override], {})
    except ConfigurationError as refused:
        line = str(refused)
    assert line.isprintable()
