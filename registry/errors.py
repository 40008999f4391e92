"""What a registry answers instead of what was asked for, and what keeps one from serving.

    RegistryFailure             the program cannot serve: one line for the operator
    Answered                    an answer that is an error: HTTP's status, Confluent's code and text

Confluent's clients act on the codes, and people read the texts in their clients' traces: both are
Confluent's, word for word where it says enough.
"""

from typing import Final

NOT_LOGGED_IN: Final = 40101
NO_REGISTRY: Final = 40302


class RegistryFailure(Exception):
    pass


class Answered(Exception):
    """An error for the client. `code` begins with `status`, as Confluent's do."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def malformed_body(why: str) -> Answered:
    return Answered(400, 400, f"The request's body cannot be read: {why}")


def malformed_path() -> Answered:
    return Answered(400, 400, "The path has an empty, a malformed or a suspicious part")


def malformed_query(most: int) -> Answered:
    return Answered(400, 400, f"A query has at most {most} parameters")


def empty_body() -> Answered:
    return Answered(422, 422, "The request needs a body")


def not_logged_in() -> Answered:
    return Answered(401, NOT_LOGGED_IN, "Unauthorized: no login, or one that is not right")


def forbidden(what: str) -> Answered:
    return Answered(403, 40301, f"Forbidden: {what}")


def no_registry() -> Answered:
    return Answered(403, NO_REGISTRY, "Forbidden: requests are passed on by registries alone")


def too_many_tries() -> Answered:
    return Answered(429, 42901, "Too many logins from there wait to be looked at: try again")


def no_such_path() -> Answered:
    return Answered(404, 404, "HTTP 404 Not Found")


def method_not_allowed() -> Answered:
    return Answered(405, 405, "HTTP 405 Method Not Allowed")


def not_acceptable() -> Answered:
    return Answered(406, 406, "HTTP 406 Not Acceptable")


def unsupported_media_type() -> Answered:
    return Answered(415, 415, "HTTP 415 Unsupported Media Type")


def unsupported_charset(name: str) -> Answered:
    return Answered(415, 415, f"The charset {name:.40} is not read here: send JSON in UTF-8")


def too_large() -> Answered:
    return Answered(413, 413, "The request's body is too large")


def too_busy() -> Answered:
    return Answered(503, 503, "Too many large requests at once: try again")


def subject_not_found(subject: str) -> Answered:
    return Answered(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> Answered:
    return Answered(404, 40402, f"Version {version} not found.")


def schema_not_found() -> Answered:
    return Answered(404, 40403, "Schema not found")


def schema_id_not_found(schema_id: int) -> Answered:
    return Answered(404, 40403, f"Schema {schema_id} not found")


def subject_soft_deleted(subject: str) -> Answered:
    return Answered(
        404,
        40404,
        f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
    )


def subject_not_soft_deleted(subject: str) -> Answered:
    return Answered(
        404,
        40405,
        f"Subject '{subject}' was not deleted first before being permanently deleted",
    )


def version_soft_deleted(subject: str, version: str) -> Answered:
    return Answered(
        404,
        40406,
        f"Subject '{subject}' Version {version} was soft deleted."
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> Answered:
    return Answered(
        404,
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently "
        "deleted",
    )


def no_level_of_its_own(subject: str) -> Answered:
    return Answered(
        404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_mode_of_its_own(subject: str) -> Answered:
    return Answered(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, messages: str) -> Answered:
    return Answered(
        409,
        40901,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: {messages}',
    )


def invalid_schema(message: str) -> Answered:
    return Answered(422, 42201, message)


def invalid_version(version: str) -> Answered:
    return Answered(
        422,
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between "
        '[1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> Answered:
    return Answered(
        422,
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode() -> Answered:
    return Answered(
        422,
        42204,
        "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT.",
    )


def not_permitted(message: str) -> Answered:
    return Answered(422, 42205, message)


def still_referenced(message: str) -> Answered:
    return Answered(422, 42206, message)


def invalid_subject(subject: str) -> Answered:
    return Answered(422, 42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large() -> Answered:
    return Answered(422, 42209, "Register operation failed because schema is too large")


def store_failed(message: str) -> Answered:
    return Answered(500, 50001, message)


def timed_out(message: str) -> Answered:
    return Answered(500, 50002, message)


def forwarding_failed(message: str) -> Answered:
    return Answered(500, 50003, message)


def no_writer() -> Answered:
    return Answered(500, 50004, "Leader not known.")
