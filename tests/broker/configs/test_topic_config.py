"""Configs of topics: what is accepted, what is refused and with which words."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.configs.config_values import MAX_LONG, text_of
from broker.configs.topic_config import ConfigChange, TopicConfig, TopicDefaults, changed
from broker.configs.topic_config_table import TOPIC_CONFIG_KEYS
from broker.errors import ApiError, ErrorCode
from broker.storage.config import LogConfig
from wire.messages.incremental_alter_configs import ConfigOperation
from wire.mirrored import ACCEPT_GAP, MIRROR_OF, MirrorOf

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
APPEND, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SUBTRACT


def refused(overrides: dict[str, str]) -> str:
    with pytest.raises(ApiError) as error:
        TopicConfig.parse(overrides)
    assert error.value.code is ErrorCode.invalid_config
    return error.value.message


@pytest.mark.parametrize("name", TOPIC_CONFIG_KEYS)
def test_every_default_is_a_legal_value_in_its_canonical_form(name: str) -> None:
    key = TOPIC_CONFIG_KEYS[name]
    assert key.canonical(key.default) == key.default
    assert TopicConfig.parse({name: key.default}).overrides == {name: key.default}
    assert key.documentation.endswith(".") or key.documentation.endswith(".)")


def test_overrides_win_over_the_brokers_defaults_and_those_over_kafkas() -> None:
    defaults = {"retention.ms": "1000", "segment.bytes": "2000"}
    config = TopicConfig.parse({"retention.ms": "5"}, defaults)
    assert config.number("retention.ms") == 5
    assert config.number("segment.bytes") == 2000
    assert config.number("segment.ms") == 604_800_000
    assert config.overrides == {"retention.ms": "5"}


def test_what_every_batch_needs_is_at_hand() -> None:
    config = TopicConfig.parse({"max.message.bytes": "100", "min.insync.replicas": "2"})
    assert config.max_message_bytes == 100
    assert config.min_insync_replicas == 2
    assert not config.stamps_append_time
    assert TopicConfig.parse({"message.timestamp.type": "LogAppendTime"}).stamps_append_time


def test_storage_is_told_what_it_reads() -> None:
    assert TopicConfig.parse({}).log_config() == LogConfig()
    texts = {
        "segment.bytes": "100",
        "segment.ms": "101",
        "index.interval.bytes": "102",
        "segment.index.bytes": "103",
        "retention.ms": "104",
        "retention.bytes": "105",
        "cleanup.policy": "compact",
        "delete.retention.ms": "106",
        "min.cleanable.dirty.ratio": "0.25",
        "min.compaction.lag.ms": "107",
        "max.compaction.lag.ms": "108",
    }
    assert TopicConfig.parse(texts).log_config() == LogConfig(
        segment_bytes=100,
        segment_ms=101,
        index_interval_bytes=102,
        segment_index_bytes=103,
        retention_ms=104,
        retention_bytes=105,
        delete=False,
        compact=True,
        delete_retention_ms=106,
        min_cleanable_dirty_ratio=0.25,
        min_compaction_lag_ms=107,
        max_compaction_lag_ms=108,
    )


def test_an_unknown_name_is_answered_with_the_nearest_known() -> None:
    assert refused({"retention.m": "1"}) == (
        "Unknown topic config name: retention.m (did you mean retention.ms?)"
    )
    assert refused({"zzz": "1"}) == "Unknown topic config name: zzz"
    assert len(refused({"x" * 30_000: "1"})) < 200


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("retention.ms", "soon", "not a whole number"),
        ("retention.ms", "-2", "must be at least -1"),
        ("retention.ms", "1_000", "not a whole number"),
        ("retention.ms", "١", "not a whole number"),
        ("retention.ms", "9" * 20, f"must be at most {MAX_LONG}"),
        ("retention.ms", "9" * 5000, "not a whole number"),
        ("segment.bytes", "2147483648", "must be at most 2147483647"),
        ("segment.bytes", "13", "must be at least 14"),
        ("min.insync.replicas", "0", "must be at least 1"),
        ("cleanup.policy", "shred", "must be a list of delete or compact"),
        ("cleanup.policy", "", "must be a list of delete or compact"),
        ("cleanup.policy", "delete,shred", "must be a list of delete or compact"),
        ("compression.type", "brotli", "must be producer"),
        ("message.timestamp.type", "Now", "must be CreateTime or LogAppendTime"),
        ("message.format.version", "newest", "must be a Kafka release"),
        ("remote.storage.enable", "true", "must be false: Penstock has no remote storage"),
        ("confluent.value.schema.validation", "true", "would enable a feature that Penstock"),
        ("confluent.placement.constraints", '{"version": 2}', "would enable a feature"),
        ("confluent.anything", "x" * 1001, "has 1001 characters, at most 1000 are allowed"),
        ("min.cleanable.dirty.ratio", "1.5", "must be between 0 and 1"),
        ("min.cleanable.dirty.ratio", "nan", "must be between 0 and 1"),
        ("min.cleanable.dirty.ratio", "half", "not a number"),
        ("preallocate", "yes", "must be true or false"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_a_reason(
    name: str, text: str, reason: str
) -> None:
    message = refused({name: text})
    assert message.startswith("Invalid value ")
    assert f"for configuration {name}: {reason}" in message
    assert len(message) < 400


@pytest.mark.parametrize(
    ("name", "text", "canonical"),
    [
        ("cleanup.policy", " compact , delete,compact", "compact,delete"),
        ("retention.ms", " +5 ", "5"),
        ("preallocate", "TRUE", "true"),
        ("min.cleanable.dirty.ratio", ".25", "0.25"),
        ("compression.type", "zstd", "zstd"),
        ("message.format.version", "0.10.0", "0.10.0"),
        ("remote.storage.enable", "False", "false"),
        ("confluent.tier.local.hotset.ms", "86400000 ", "86400000"),
    ],
)
def test_values_are_kept_in_their_canonical_form(name: str, text: str, canonical: str) -> None:
    assert TopicConfig.parse({name: text}).overrides == {name: canonical}


def test_what_nothing_goes_by_is_told_from_what_is_as_it_is_anyway() -> None:
    config = TopicConfig.parse(
        {
            "compression.type": "gzip",
            "message.format.version": "3.0-IV1",
            "confluent.tier.enable": "false",
            "remote.storage.enable": "false",
            "retention.ms": "5",
        }
    )
    assert config.unused == {"compression.type": "gzip", "confluent.tier.enable": "false"}


def test_only_so_many_configs_of_others_are_kept() -> None:
    fifty = {f"confluent.number.{number}": "1" for number in range(50)}
    assert TopicConfig.parse(fifty).overrides == fifty
    assert "51 foreign configs, at most 50 are allowed" in refused({**fifty, "confluent.more": "1"})
    for name in ("confluent.", "confluent.x\n", "confluent." + "x" * 101, "confluence.x"):
        assert "Unknown topic config name" in refused({name: "1"})


@given(st.sampled_from(sorted(TOPIC_CONFIG_KEYS)), st.text(max_size=30))
def test_any_text_is_read_or_refused(name: str, text: str) -> None:
    key = TOPIC_CONFIG_KEYS[name]
    with suppress(ApiError):
        value = key.read(text)
        assert key.read(text_of(value)) == value


def test_cleanup_policies_and_lags_that_contradict_each_other() -> None:
    for text, found in (("delete", (True, False)), ("compact,delete", (True, True))):
        config = TopicConfig.parse({"cleanup.policy": text})
        assert (config.deletes, config.compacts) == found
    message = refused({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})
    assert message == "min.compaction.lag.ms (10) is greater than max.compaction.lag.ms (9)"


def test_the_old_bound_on_timestamps_stands_for_both_new_ones() -> None:
    assert TopicConfig.parse({}).timestamp_after_max_ms == MAX_LONG
    config = TopicConfig.parse(
        {"message.timestamp.difference.max.ms": "10", "message.timestamp.after.max.ms": "3"}
    )
    assert config.timestamp_before_max_ms == 10
    assert config.timestamp_after_max_ms == 3


def test_what_the_map_holds_is_read_as_far_as_it_can_be() -> None:
    config, problems = TopicConfig.salvage(
        {"retention.ms": "5", "of.a.later.release": "1", "segment.bytes": "huge"}
    )
    assert config.overrides == {"retention.ms": "5"}
    assert config.number("retention.ms") == 5
    assert len(problems) == 2
    assert "of.a.later.release" in problems[0]
    assert "segment.bytes" in problems[1]


def test_defaults_of_the_brokers_file() -> None:
    defaults = TopicDefaults.from_settings(
        {
            "partitions": 8,
            "replication_factor": 3,
            "retention.ms": 604800000,
            "preallocate": True,
            "min.cleanable.dirty.ratio": 0.1,
            "cleanup.policy": ["compact", "delete"],
        }
    )
    assert defaults.partitions == 8
    assert defaults.replication_factor == 3
    assert defaults.configs == {
        "retention.ms": "604800000",
        "preallocate": "true",
        "min.cleanable.dirty.ratio": "0.1",
        "cleanup.policy": "compact,delete",
    }
    assert TopicDefaults.from_settings({}) == TopicDefaults()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"partitions": 0}, "`partitions`"),
        ({"partitions": True}, "`partitions`"),
        ({"replication_factor": "3"}, "`replication_factor`"),
        ({"retention.mss": 1}, "retention.ms?"),
        ({"retention.ms": "long"}, "retention.ms"),
    ],
)
def test_bad_defaults_name_their_key(settings: dict[str, object], named: str) -> None:
    with pytest.raises((ValueError, ApiError), match=named.replace("?", r"\?")):
        TopicDefaults.from_settings(settings)


def test_incremental_changes() -> None:
    before = {"retention.ms": "5", "segment.bytes": "100"}
    after = changed(
        before,
        [
            ConfigChange("retention.ms", SET, "6"),
            ConfigChange("segment.bytes", DELETE),
            ConfigChange("flush.ms", DELETE),
            ConfigChange("cleanup.policy", APPEND, "compact"),
        ],
    )
    assert after == {"retention.ms": "6", "cleanup.policy": "delete,compact"}
    assert before == {"retention.ms": "5", "segment.bytes": "100"}
    assert changed(after, [ConfigChange("cleanup.policy", SUBTRACT, " delete")]) == {
        "retention.ms": "6",
        "cleanup.policy": "compact",
    }
    of_later = {"of.a.later.release": "1"}
    assert changed(of_later, [ConfigChange("of.a.later.release", DELETE)]) == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (ConfigChange("retention.ms", APPEND, "6"), ErrorCode.invalid_request),
        (ConfigChange("retention.ms", SUBTRACT, "6"), ErrorCode.invalid_request),
        (ConfigChange("retention.ms", SET), ErrorCode.invalid_request),
        (ConfigChange("retention", SET, "1"), ErrorCode.invalid_config),
    ],
)
def test_changes_that_make_no_sense_are_refused(change: ConfigChange, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as error:
        changed({}, [change])
    assert error.value.code is code


@pytest.mark.parametrize(
    ("key", "value"), [(MIRROR_OF, "dc1/logs/"), (ACCEPT_GAP, "0:3-5"), (MIRROR_OF, "")]
)
def test_what_makes_one_topic_a_copy_is_no_default_of_all(key: str, value: str) -> None:
    with pytest.raises(ValueError, match="can be set for single topics only"):
        TopicDefaults.from_settings({key: value})


def test_a_copy_knows_its_source_and_the_gaps_that_it_may_have() -> None:
    config = TopicConfig.parse({MIRROR_OF: " dc1/logs/ ", ACCEPT_GAP: "3:100-150, 7:0-912"})
    assert config.mirror_of == MirrorOf("dc1", "logs", "")
    assert config.overrides[MIRROR_OF] == "dc1/logs/"
    assert config.accepts_gap(3, 100, 150)
    assert config.accepts_gap(7, 0, 912)
    for partition, end, base in [(3, 100, 151), (3, 99, 150), (4, 100, 150), (3, 150, 100)]:
        assert not config.accepts_gap(partition, end, base)
    assert TopicConfig.parse({}).mirror_of is None
