"""`penstock schemas delete`."""

import click

from penstock.confirmation import confirm_deletion, yes_option
from penstock.failures import Failed
from penstock.json_option import json_option
from penstock.output import print_json
from penstock.registry_connection import existing_subjects, registry_at, registry_option
from penstock.schema_arguments import HIGHEST, SUBJECT
from penstock.schema_reports import say
from schemas.errors import RegistryRefused
from schemas.registry_client import (
    REFERENCE_EXISTS,
    SUBJECT_SOFT_DELETED,
    VERSION_SOFT_DELETED,
    RegistryClient,
)


@click.command()
@click.argument("subject", type=SUBJECT, shell_complete=existing_subjects)
@click.option("--version", type=click.IntRange(1, HIGHEST), metavar="N", help="Only this one.")
@click.option(
    "--permanent", is_flag=True, help="For good: what was written with it may be unreadable."
)
@yes_option
@registry_option
@json_option
def command(
    *,
    subject: str,
    version: int | None,
    permanent: bool,
    yes: bool,
    registry: str,
    as_json: bool,
) -> None:
    """Delete a subject, or one version of it.

    Ids go on being served to consumers, and versions to whoever knows them, unless the deletion is
    --permanent.

    \b
    Example:
        penstock schemas delete page_views-value --version 3
        penstock schemas delete page_views-value --permanent --yes
    """
    what = subject if version is None else f"{subject}, version {version}"
    if not yes:
        confirm_deletion(f"{what}{' for good' if permanent else ''}")
    with registry_at(registry) as client:
        versions = _delete(client, subject, version, again=permanent)
        if permanent:
            versions = _purge(client, subject, version)
    if as_json:
        print_json({"subject": subject, "versions": versions, "permanent": permanent})
    else:
        shown = ", ".join(map(str, versions))
        say(f"deleted {subject}{' for good' if permanent else ''}: version {shown}")


def _delete(client: RegistryClient, subject: str, version: int | None, *, again: bool) -> list[int]:
    """`again` says that it may be deleted already."""
    try:
        if version is None:
            return client.delete_subject(subject)
        return [client.delete_version(subject, version)]
    except RegistryRefused as error:
        if error.code == REFERENCE_EXISTS:
            users = _users(client, subject, version)
            raise Failed(f"{subject} is used by {users}: delete that first") from None
        if error.code not in {SUBJECT_SOFT_DELETED, VERSION_SOFT_DELETED}:
            raise
        if again:
            return []
        raise Failed("it is deleted already; --permanent deletes it for good") from None


def _purge(client: RegistryClient, subject: str, version: int | None) -> list[int]:
    if version is None:
        return client.delete_subject(subject, permanent=True)
    return [client.delete_version(subject, version, permanent=True)]


def _users(client: RegistryClient, subject: str, version: int | None) -> str:
    versions = client.versions(subject) if version is None else [version]
    ids = {each for number in versions for each in client.referenced_by(subject, number)}
    places = sorted({place for each in ids for place in client.places_of(each)})
    return ", ".join(f"{each.subject} version {each.version}" for each in places)
