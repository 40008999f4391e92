"""Error answers to clients, and the failure that stops a registry.

    RegistryFailure             the program cannot serve: one line for the operator
    ErrorAnswer                    an error answer: HTTP status, Confluent's code and text

Confluent's clients act on the codes, and people see the texts in their clients' traces: both are
Confluent's, verbatim where the text is sufficient.
"""

from typing import Final

NOT_LOGGED_IN: Final = 40101
NO_REGISTRY: Final = 40302


class RegistryFailure(Exception):
    pass


class ErrorAnswer(Exception):
    """An error for the client. As with Confluent, `code` begins with `status`."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def malformed_body(why: str) -> ErrorAnswer:
    return ErrorAnswer(400, 400, f"Invalid request body: {why}")


def malformed_path() -> ErrorAnswer:
    return ErrorAnswer(400, 400, "The path has an empty, malformed or suspicious segment")


def malformed_query(most: int) -> ErrorAnswer:
    return ErrorAnswer(400, 400, f"A query has at most {most} parameters")


def empty_body() -> ErrorAnswer:
    return ErrorAnswer(422, 422, "The request needs a body")


def not_logged_in() -> ErrorAnswer:
    return ErrorAnswer(401, NOT_LOGGED_IN, "Unauthorized: missing or invalid credentials")


def forbidden(what: str) -> ErrorAnswer:
    return ErrorAnswer(403, 40301, f"Forbidden: {what}")


def no_registry() -> ErrorAnswer:
    return ErrorAnswer(403, NO_REGISTRY, "Forbidden: only registries may forward requests")


def too_many_logins() -> ErrorAnswer:
    return ErrorAnswer(429, 42901, "Too many pending logins from this address: try again")


def no_such_path() -> ErrorAnswer:
    return ErrorAnswer(404, 404, "HTTP 404 Not Found")


def method_not_allowed() -> ErrorAnswer:
    return ErrorAnswer(405, 405, "HTTP 405 Method Not Allowed")


def not_acceptable() -> ErrorAnswer:
    return ErrorAnswer(406, 406, "HTTP 406 Not Acceptable")


def unsupported_media_type() -> ErrorAnswer:
    return ErrorAnswer(415, 415, "HTTP 415 Unsupported Media Type")


def unsupported_charset(name: str) -> ErrorAnswer:
    return ErrorAnswer(415, 415, f"Unsupported charset {name:.40}: send JSON in UTF-8")


def too_large() -> ErrorAnswer:
    return ErrorAnswer(413, 413, "The request's body is too large")


def too_busy() -> ErrorAnswer:
    return ErrorAnswer(503, 503, "Too many large requests at once: try again")


def subject_not_found(subject: str) -> ErrorAnswer:
    return ErrorAnswer(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> ErrorAnswer:
    return ErrorAnswer(404, 40402, f"Version {version} not found.")


def schema_not_found() -> ErrorAnswer:
    return ErrorAnswer(404, 40403, "Schema not found")


def schema_id_not_found(schema_id: int) -> ErrorAnswer:
    return ErrorAnswer(404, 40403, f"Schema {schema_id} not found")


def subject_soft_deleted(subject: str) -> ErrorAnswer:
    return ErrorAnswer(
        404,
        40404,
        f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
    )


def subject_not_soft_deleted(subject: str) -> ErrorAnswer:
    return ErrorAnswer(
        404,
        40405,
        f"Subject '{subject}' was not deleted first before being permanently deleted",
    )


def version_soft_deleted(subject: str, version: str) -> ErrorAnswer:
    return ErrorAnswer(
        404,
        40406,
        f"Subject '{subject}' Version {version} was soft deleted."
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> ErrorAnswer:
    return ErrorAnswer(
        404,
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently "
        "deleted",
    )


def no_level_of_its_own(subject: str) -> ErrorAnswer:
    return ErrorAnswer(
        404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_mode_of_its_own(subject: str) -> ErrorAnswer:
    return ErrorAnswer(
        404, 40409, f"Subject '{subject}' does not have subject-level mode configured"
    )


def incompatible(subject: str, messages: str) -> ErrorAnswer:
    return ErrorAnswer(
        409,
        40901,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: {messages}',
    )


def invalid_schema(message: str) -> ErrorAnswer:
    return ErrorAnswer(422, 42201, message)


def invalid_version(version: str) -> ErrorAnswer:
    return ErrorAnswer(
        422,
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between "
        '[1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> ErrorAnswer:
    return ErrorAnswer(
        422,
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode() -> ErrorAnswer:
    return ErrorAnswer(
        422,
        42204,
        "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT.",
    )


def not_permitted(message: str) -> ErrorAnswer:
    return ErrorAnswer(422, 42205, message)


def still_referenced(message: str) -> ErrorAnswer:
    return ErrorAnswer(422, 42206, message)


def invalid_subject(subject: str) -> ErrorAnswer:
    return ErrorAnswer(422, 42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large() -> ErrorAnswer:
    return ErrorAnswer(422, 42209, "Register operation failed because schema is too large")


def store_failed(message: str) -> ErrorAnswer:
    return ErrorAnswer(500, 50001, message)


def timed_out(message: str) -> ErrorAnswer:
    return ErrorAnswer(500, 50002, message)


def forwarding_failed(message: str) -> ErrorAnswer:
    return ErrorAnswer(500, 50003, message)


def no_writer() -> ErrorAnswer:
    return ErrorAnswer(500, 50004, "Leader not known.")
