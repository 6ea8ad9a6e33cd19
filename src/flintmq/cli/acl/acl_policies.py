"""`flintmq acl policies`: who may do what on running brokers, by ACL 2.0.

A policy entry names a user, a resource, actions, and whether they are allowed.  Exit codes are
those of `output`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from flintmq.access.rules import Action, Dialect, Resource
from flintmq.access.sources import parse_range
from flintmq.cli.acl.dialect_admin import admin_of, require_user
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.options import InCluster, OnBroker, Yes
from flintmq.cli.shared.output import Output, OutputOption, print_json, print_line
from flintmq.cli.shared.tables import Wrapped, print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidSetting

app = typer.Typer(
    help="List, set and delete what users of ACL 2.0 may do.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)

Who = Annotated[str, typer.Argument(metavar="USER", help="The user.")]
What = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE",
        help="Topic:orders, Topic:orders*, Topic:*, Group:…, Cluster:… or * for everything.",
    ),
]
InDefault = Annotated[
    bool,
    typer.Option("--default", help="In the Default policy, which counts where no other matches."),
]


@app.command("list")
@connected
def list_policies(
    settings: ClientSettings,
    user: Annotated[
        str | None, typer.Option("--user", help="Only this user.", show_default=False)
    ] = None,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the policy entries of each broker.

    Examples:
        flintmq acl policies list --user alice
    """
    with admin_of(Dialect.AUTH, settings) as admin:
        found = admin.policies(user, broker=broker, cluster=cluster)
    if output is Output.JSON:
        print_json(
            [
                {
                    "broker": each.broker,
                    "user": each.user,
                    "policy": each.policy,
                    "resource": each.resource,
                    "actions": each.actions,
                    "decision": each.decision,
                    "from": each.sources,
                }
                for each in found
            ]
        )
        return
    print_table(
        ("broker", "user", "policy", "resource", "decision", "actions", Wrapped("from")),
        (
            (
                each.broker,
                each.user,
                each.policy,
                each.resource,
                each.decision,
                ", ".join(each.actions),
                ", ".join(each.sources) or "anywhere",
            )
            for each in found
        ),
    )


@app.command("set")
@connected
def change(
    settings: ClientSettings,
    user: Who,
    resource: What,
    actions: Annotated[
        str,
        typer.Argument(metavar="ACTIONS", help="With commas: Pub,Sub,Create,Update,Delete,Get."),
    ],
    deny: Annotated[bool, typer.Option("--deny", help="Deny them; else they are allowed.")] = False,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="IP|RANGE",
            help="Only from this address or range; may be given several times.",
            show_default=False,
        ),
    ] = None,
    default: InDefault = False,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Allow or deny actions on a resource; an entry of the user with the same resource is replaced.

    Examples:
        flintmq acl policies set alice Topic:orders Pub,Sub
        flintmq acl policies set alice 'Topic:audit*' All --deny
        flintmq acl policies set alice Group:billing Sub --from 10.0.0.0/8
    """
    _check(resource)
    named = _actions(actions)
    for source in sources or ():
        parse_range(source)
    with admin_of(Dialect.AUTH, settings) as admin:
        require_user(admin, user, broker, cluster)
        brokers = admin.change_policy(
            user,
            resource,
            named,
            is_allowed=not deny,
            sources=sources or (),
            is_default=default,
            broker=broker,
            cluster=cluster,
        )
    if output is Output.JSON:
        print_json({"user": user, "resource": resource, "changed": brokers})
    else:
        decision = "denied" if deny else "allowed"
        where = ", ".join(brokers)
        print_line(f"{', '.join(named)} on {resource} is {decision} to {user} on {where}")


@app.command()
@connected
def delete(
    settings: ClientSettings,
    user: Who,
    resource: Annotated[
        str | None,
        typer.Argument(metavar="RESOURCE", help="The resource of the entry.", show_default=False),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All entries of the user, of both policies.")
    ] = False,
    default: InDefault = False,
    broker: OnBroker = None,
    cluster: InCluster = None,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete one entry of a user, or all of them.

    Examples:
        flintmq acl policies delete alice Topic:orders --yes
        flintmq acl policies delete alice --all
    """
    if (resource is None) is not everything:
        raise InvalidSetting("resource", resource or "", "give a resource, or --all without one")
    if resource is not None:
        _check(resource)
    if not yes:
        what = "all entries" if resource is None else f"the entry {resource}"
        typer.confirm(f"Delete {what} of {user}?", abort=True, err=True)
    with admin_of(Dialect.AUTH, settings) as admin:
        known = admin.policies(user, broker=broker, cluster=cluster)
        type_ = "Default" if default else "Custom"
        if resource is not None and not any(
            (each.resource, each.policy) == (resource, type_) for each in known
        ):
            reason = f"{user} has no {type_} entry for it; flintmq acl policies list shows all"
            raise InvalidSetting("resource", resource, reason)
        brokers = admin.delete_policies(
            user, resource, is_default=default, broker=broker, cluster=cluster
        )
    if output is Output.JSON:
        print_json({"user": user, "resource": resource, "deleted": brokers})
    else:
        what, verb = ("all entries", "are") if resource is None else (resource, "is")
        print_line(f"{what} of {user} {verb} deleted on {', '.join(brokers)}")


def _check(resource: str) -> None:
    if Resource.parse(resource) is None:
        reason = "write it as Topic:name, Topic:prefix*, Topic:*, Group:…, Cluster:… or *"
        raise InvalidSetting("resource", resource, reason)


def _actions(text: str) -> list[str]:
    named = []
    for part in text.split(","):
        action = Action.parse(part)
        if action is None or action is Action.ANY:
            known = ", ".join(each.title for each in Action if each is not Action.ANY)
            raise InvalidSetting("actions", text, f"{part!r} is none; known are {known}")
        named.append(action.title)
    return named
