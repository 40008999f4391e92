"""Resources that change the registry, by the writer here or in another registry."""

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from registry.changes.compatibility import config_in_scope
from registry.changes.deletion import delete_subject, delete_version
from registry.changes.modes import read_only
from registry.changes.registration import is_registered, normalizes, register
from registry.changes.settings import set_config, set_mode, unset_config, unset_mode
from registry.errors import no_level_of_its_own, no_mode_of_its_own
from registry.http.connections.messages import HttpResponse, answer
from registry.http.resources.answers import ModeAnswer, config_answer, config_change, registered
from registry.http.resources.call import Call
from registry.http.resources.parameters import flag, version_number
from registry.http.resources.worker_threads import find_registered
from registry.log import error_texts
from registry.log.error_texts import ErrorTexts
from registry.log.forwarding import FORWARDED, ForwardedRequest, Passed
from registry.requests import config_request, mode_request, schema_request
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.values import Decision, Mode

log = logging.getLogger(__name__)

T = TypeVar("T")

_PASSED_ON = ("content-type", "accept")


async def register_schema(call: Call) -> HttpResponse:
    subject = call.new_subject
    request = schema_request(call.request.json)
    call.check_references(request)
    normalize = normalizes(call.contents, subject, asked=flag(call.request.query, "normalize"))
    registered_version = await find_registered(call.contents, subject, request, normalize=normalize)
    if registered_version is not None and is_registered(
        call.contents, subject, request, registered_version
    ):
        return answer(registered(registered_version))
    decide = partial(register, subject=subject, request=request, normalize=normalize)
    return await _write(call, error_texts.REGISTERING, decide, registered)


async def delete_one_version(call: Call) -> HttpResponse:
    number = version_number(call.path["version"])
    is_permanent = flag(call.request.query, "permanent")
    decide = partial(delete_version, subject=call.subject, number=number, permanent=is_permanent)
    return await _write(call, error_texts.DELETING_VERSION, decide, int)


async def delete_whole_subject(call: Call) -> HttpResponse:
    is_permanent = flag(call.request.query, "permanent")
    return await _write(
        call,
        error_texts.DELETING_SUBJECT,
        partial(delete_subject, subject=call.subject, permanent=is_permanent),
        list,
    )


def config(call: Call) -> HttpResponse:
    subject = call.subject_or_all
    effective_config = config_in_scope(call.contents, subject)
    if subject is None or flag(call.request.query, "defaultToGlobal"):
        return answer(effective_config)
    own_settings = call.contents.config(subject)
    if own_settings is None:
        raise no_level_of_its_own(subject)
    return answer(config_answer(own_settings, call.contents.default_level))


async def change_config(call: Call) -> HttpResponse:
    change = config_request(call.request.json)
    subject = call.new_subject_or_all
    return await _write(
        call,
        error_texts.CHANGING_CONFIG,
        partial(set_config, subject=subject, change=change),
        config_change,
    )


async def remove_config(call: Call) -> HttpResponse:
    decide = partial(unset_config, subject=call.subject_or_all)
    default_level = call.contents.default_level
    return await _write(
        call, error_texts.REMOVING_CONFIG, decide, lambda old: config_answer(old, default_level)
    )


def mode(call: Call) -> HttpResponse:
    subject = call.subject_or_all
    if call.registry.config.read_only:
        return answer(ModeAnswer(Mode.READONLY.value))
    if subject is None or flag(call.request.query, "defaultToGlobal"):
        return answer(ModeAnswer(call.contents.mode_in_scope(subject).value))
    own_settings = call.contents.mode(subject)
    if own_settings is None:
        raise no_mode_of_its_own(subject)
    return answer(ModeAnswer(own_settings.value))


async def change_mode(call: Call) -> HttpResponse:
    subject = call.new_subject_or_all
    mode_change = mode_request(call.request.json)
    is_forced = flag(call.request.query, "force")
    decide = partial(set_mode, subject=subject, mode=mode_change.mode, force=is_forced)
    return await _write(
        call, error_texts.CHANGING_MODE, decide, lambda _: ModeAnswer(mode_change.written)
    )


async def remove_mode(call: Call) -> HttpResponse:
    decide = partial(unset_mode, subject=call.subject_or_all)
    return await _write(call, error_texts.REMOVING_MODE, decide, lambda old: ModeAnswer(old.value))


async def _write(
    call: Call,
    texts: ErrorTexts,
    decide: Callable[[RegistryContents], Decision[T]],
    answered: Callable[[T], object],
) -> HttpResponse:
    request = call.request
    if call.registry.config.read_only:
        raise read_only(call.path.get("subject"))
    headers = tuple((name, request.headers[name]) for name in _PASSED_ON if name in request.headers)
    forwarded_request = ForwardedRequest(
        request.method,
        request.target,
        headers,
        request.body,
        FORWARDED in request.headers,
        texts,
        call.caller.name,
    )
    response = await call.registry.write(decide, forwarded_request)
    if isinstance(response, Passed):
        return HttpResponse(response.status, response.body, response.content_type)
    log.info(
        "written method=%s target=%.300r%s",
        request.method,
        request.target,
        f" principal={call.caller.name!r}" if call.caller.name else "",
    )
    return answer(answered(response))
