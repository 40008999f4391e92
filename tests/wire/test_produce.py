"""The hand-written Produce is the same as the compiled one, byte for byte and error for error."""

from hypothesis import given
from hypothesis import strategies as st

from wire.errors import ErrorCode, ProtocolError
from wire.framing.requests import has_tagged_header
from wire.framing.requests import response_frame as compiled_response_frame
from wire.messages.produce import (
    API,
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from wire.produce import PartitionBatch, PartitionResult, read_request, response_frame

versions = st.sampled_from(API.versions)
names = st.text(max_size=20)
requests = st.builds(
    ProduceRequest,
    transactional_id=st.none() | names,
    acks=st.integers(-1, 1),
    timeout=st.integers(0, 2**31 - 1),
    topic_data=st.lists(
        st.builds(
            TopicProduceData,
            name=names,
            partition_data=st.lists(
                st.builds(
                    PartitionProduceData,
                    index=st.integers(-1, 2**31 - 1),
                    records=st.none() | st.binary(max_size=200).map(lambda raw: memoryview(raw)),  # noqa: PLW0108,
                ),
                max_size=3,
            ).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
)


@given(versions, requests)
def test_requests_read_the_same(version: int, request: ProduceRequest) -> None:
    body = memoryview(bytes(API.encode_request(version, request)))
    read = read_request(version, body)
    assert read.transactional_id == request.transactional_id
    assert read.acks == request.acks
    assert read.batches == [
        PartitionBatch(topic.name, partition.index, partition.records)
        for topic in request.topic_data
        for partition in topic.partition_data
    ]


@given(versions, requests, st.data())
def test_damaged_requests_are_refused_the_same(
    version: int, request: ProduceRequest, data: st.DataObject
) -> None:
    body = bytearray(API.encode_request(version, request))
    for _ in range(data.draw(st.integers(1, 4))):
        if body:
            position = data.draw(st.integers(0, len(body) - 1))
            body[position] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))] + data.draw(st.binary(max_size=3))
    assert _refused(read_request, version, body) == _refused(API.decode_request, version, body)


def _refused(read: object, version: int, body: bytearray) -> bool:
    assert callable(read)
    try:
        read(version, memoryview(body))
    except ProtocolError:
        return True
    return False


results = st.lists(
    st.builds(
        PartitionResult,
        st.sampled_from(["a", "b", "ü"]),
        st.integers(0, 100),
        st.sampled_from(list(ErrorCode)),
        st.integers(-1, 2**63 - 1),
        st.integers(-1, 2**63 - 1),
        st.integers(-1, 2**63 - 1),
        st.none() | names,
        st.none() | st.integers(0, 2**31 - 1),
    ),
    max_size=5,
).map(lambda unsorted: sorted(unsorted, key=lambda result: result.topic))


@given(versions, st.integers(0, 2**31 - 1), results)
def test_responses_are_written_the_same(
    version: int, correlation_id: int, results: list[PartitionResult]
) -> None:
    topics = dict.fromkeys(result.topic for result in results)
    response = ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=topic,
                partition_responses=tuple(
                    PartitionProduceResponse(
                        index=result.partition,
                        error_code=result.code,
                        base_offset=result.base_offset,
                        log_append_time=result.append_time,
                        log_start_offset=result.start_offset,
                        record_errors=()
                        if result.record is None
                        else (
                            BatchIndexAndErrorMessage(
                                batch_index=result.record, batch_index_error_message=result.message
                            ),
                        ),
                        error_message=result.message,
                    )
                    for result in results
                    if result.topic == topic
                ),
            )
            for topic in topics
        )
    )
    parts = compiled_response_frame(
        correlation_id,
        API.encode_response(version, response),
        tagged_header=has_tagged_header(API, version),
    )
    compiled = b"".join(bytes(part) for part in parts if not hasattr(part, "file"))
    assert bytes(response_frame(version, correlation_id, results)) == compiled
