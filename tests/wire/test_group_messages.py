"""What the messages of consumer groups level between their versions, and the bytes that they carry
for members."""

import struct

import pytest
from msgspec.structs import replace

from ground.varints import unsigned_varint
from wire.errors import ErrorCode, ProtocolError
from wire.messages import join_group, leave_group, offset_fetch, sync_group
from wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

METADATA = bytes(range(256))
JOINS = JoinGroupRequest(
    group_id="g",
    session_timeout=10_000,
    rebalance_timeout=60_000,
    protocol_type="consumer",
    protocols=(JoinGroupRequestProtocol(name="range", metadata=METADATA),),
)
ASKED = OffsetFetchRequestGroup(
    group_id="g", topics=(OffsetFetchRequestTopic(name="t", partition_indexes=(0, 1)),)
)
COMMITTED = OffsetFetchResponsePartition(partition_index=0, committed_offset=7, metadata="m")
NOTHING = OffsetFetchResponsePartition(partition_index=1)
FOUND = OffsetFetchResponseTopic(name="t", partitions=(COMMITTED, NOTHING))


def received(written: bytearray) -> memoryview:
    return memoryview(bytes(written))


@pytest.mark.parametrize("version", join_group.API.versions)
def test_who_joins_is_known_by_what_it_understands(version: int) -> None:
    body = join_group.API.encode_request(version, JOINS)
    read = join_group.API.decode_request(version, received(body))
    assert read.rebalance_timeout == (60_000 if version else 10_000)
    assert read.understands_member_id_required == (version >= 4)
    assert read.understands_skip_assignment == (version >= 9)
    assert join_group.API.encode_request(version, read) == body


@pytest.mark.parametrize("version", join_group.API.versions)
def test_who_is_not_let_in_is_told_no_protocol(version: int) -> None:
    refused = JoinGroupResponse(error_code=ErrorCode.member_id_required, member_id="m")
    read = join_group.API.decode_response(
        version, received(join_group.API.encode_response(version, refused))
    )
    assert read == replace(refused, protocol_name="" if version < 7 else None)


@pytest.mark.parametrize("version", leave_group.API.versions)
def test_members_leave_alike_in_all_versions(version: int) -> None:
    leaves = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),))
    body = leave_group.API.encode_request(version, leaves)
    assert leave_group.API.decode_request(version, received(body)).members == leaves.members

    (gone,) = members = (MemberResponse(member_id="m", error_code=ErrorCode.unknown_member_id),)
    body = leave_group.API.encode_response(version, LeaveGroupResponse(members=members))
    read = leave_group.API.decode_response(version, received(body))
    told = LeaveGroupResponse(members=members)
    assert read == (told if version >= 3 else LeaveGroupResponse(error_code=gone.error_code))

    for refused in (
        LeaveGroupResponse(error_code=ErrorCode.not_coordinator),
        LeaveGroupResponse(error_code=ErrorCode.not_coordinator, members=members),
    ):
        body = leave_group.API.encode_response(version, refused)
        read = leave_group.API.decode_response(version, received(body))
        assert read.error_code is ErrorCode.not_coordinator


def test_several_members_leave_from_version_3_on() -> None:
    leaves = LeaveGroupRequest(
        group_id="g",
        members=(MemberIdentity(group_instance_id="i"), MemberIdentity(member_id="m")),
    )
    body = leave_group.API.encode_request(3, leaves)
    assert leave_group.API.decode_request(3, received(body)) == leaves
    with pytest.raises(ValueError, match="unpack"):
        leave_group.API.encode_request(2, leaves)


@pytest.mark.parametrize("version", offset_fetch.API.versions)
def test_offsets_are_asked_for_alike_in_all_versions(version: int) -> None:
    asks = OffsetFetchRequest(groups=(ASKED,))
    body = offset_fetch.API.encode_request(version, asks)
    assert offset_fetch.API.decode_request(version, received(body)).groups == (ASKED,)
    asks = OffsetFetchRequest(groups=(replace(ASKED, topics=None),))
    if version == 1:
        with pytest.raises(TypeError, match="no null"):
            offset_fetch.API.encode_request(version, asks)
    else:
        body = offset_fetch.API.encode_request(version, asks)
        assert offset_fetch.API.decode_request(version, received(body)).groups == asks.groups


@pytest.mark.parametrize("version", offset_fetch.API.versions)
def test_offsets_are_told_alike_in_all_versions(version: int) -> None:
    group = OffsetFetchResponseGroup(group_id="g", topics=(FOUND,))
    body = offset_fetch.API.encode_response(version, OffsetFetchResponse(groups=(group,)))
    read = offset_fetch.API.decode_response(version, received(body))
    assert read.groups == (group if version >= 8 else replace(group, group_id=""),)


@pytest.mark.parametrize("version", offset_fetch.API.versions)
def test_a_groups_error_is_told_in_all_versions(version: int) -> None:
    code = ErrorCode.group_authorization_failed
    group = OffsetFetchResponseGroup(group_id="g", topics=(FOUND,), error_code=code)
    body = offset_fetch.API.encode_response(version, OffsetFetchResponse(groups=(group,)))
    (read,) = offset_fetch.API.decode_response(version, received(body)).groups
    if version == 1:
        assert [each.error_code for each in read.topics[0].partitions] == [code, code]
    else:
        assert (read.error_code, read.topics) == (code, (FOUND,))


def test_several_groups_are_asked_about_from_version_8_on() -> None:
    groups = (ASKED, replace(ASKED, group_id="h", topics=None))
    body = offset_fetch.API.encode_request(8, OffsetFetchRequest(groups=groups))
    assert offset_fetch.API.decode_request(8, received(body)).groups == groups
    with pytest.raises(ValueError, match="unpack"):
        offset_fetch.API.encode_request(7, OffsetFetchRequest(groups=groups))


@pytest.mark.parametrize("version", join_group.API.versions)
def test_what_members_bring_outlives_the_frame_and_is_handed_on_as_it_is(version: int) -> None:
    frame = bytearray(join_group.API.encode_request(version, JOINS))
    (brought,) = join_group.API.decode_request(version, memoryview(frame)).protocols
    frame[:] = bytes(len(frame))  # the next one is received into the same memory
    assert brought.metadata == METADATA

    member = JoinGroupResponseMember(member_id="m", metadata=brought.metadata)
    told = join_group.API.encode_response(version, JoinGroupResponse(members=(member,)))
    assert join_group.API.decode_response(version, received(told)).members[0].metadata == METADATA


@pytest.mark.parametrize("version", sync_group.API.versions)
@pytest.mark.parametrize("size", [2**31 - 2, 1000])
def test_an_assignment_that_is_longer_than_its_request_is_refused(version: int, size: int) -> None:
    assignment = SyncGroupRequestAssignment(member_id="m", assignment=METADATA)
    asks = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=(assignment,))
    whole = bytes(sync_group.API.encode_request(version, asks))

    def announced(length: int) -> bytes:
        if sync_group.API.is_flexible(version):
            return unsigned_varint(length + 1)
        return struct.pack(">i", length)

    said = announced(len(METADATA)) + METADATA
    assert said in whole
    with pytest.raises(ProtocolError, match=f"{size} more expected"):
        sync_group.API.decode_request(
            version, memoryview(whole.replace(said, announced(size) + METADATA))
        )
