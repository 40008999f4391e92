"""`penstock schemas`: one module for each of its commands."""

import click

from penstock.lazy_group import Lazy, LazyGroup


@click.group(
    cls=LazyGroup,
    sections={
        "Commands": {
            "list": Lazy("penstock.commands.schemas_list", "List subjects."),
            "show": Lazy("penstock.commands.schemas_show", "Show one schema."),
            "new": Lazy(
                "penstock.commands.schemas_new", "Write a first schema for a topic, as a file."
            ),
            "check": Lazy(
                "penstock.commands.schemas_check", "Say whether a schema may be registered."
            ),
            "register": Lazy("penstock.commands.schemas_register", "Register a schema."),
            "apply": Lazy("penstock.commands.schemas_apply", "Register what changed in a folder."),
            "diff": Lazy(
                "penstock.commands.schemas_diff", "Show what changed between two versions."
            ),
            "config": Lazy(
                "penstock.commands.schemas_config", "Show or set levels of compatibility."
            ),
            "delete": Lazy("penstock.commands.schemas_delete", "Delete a subject, or a version."),
        }
    },
)
def command() -> None:
    """List and change what a registry holds; Confluent's registry is as good.

    \b
    Example:
        penstock schemas new page_views
        penstock schemas check page_views-value.avsc
        penstock schemas register page_views-value.avsc
    """
