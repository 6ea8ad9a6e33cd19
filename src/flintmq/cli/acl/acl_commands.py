"""`flintmq acl`: who may do what, on running brokers and in account files.

    users, policies      ACL 2.0 on running brokers
    accounts             ACL 1.0 on running brokers
    quotas               what accounts and groups may send and consume a second
    explain              one decision, and the rule that decided
    check, import        account files, without a broker

Secrets are read from files, variables or without echo; none is printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flintmq.access.account_faults import AccountFinding, check_accounts_file, check_plain_files
from flintmq.access.accounts import PlainAccounts
from flintmq.access.auth_accounts import accounts_of_rules
from flintmq.access.explain import Explanation, explain, parse_need
from flintmq.access.plain_file import PlainFile
from flintmq.access.plain_import import import_plain
from flintmq.access.quotas import Quota
from flintmq.access.rules import Dialect, ResourceType, RuleSet
from flintmq.access.sources import parse_address
from flintmq.cli.acl import acl_accounts, acl_policies, acl_quotas, acl_users
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.options import OnBroker
from flintmq.cli.shared.output import (
    FAILED,
    Output,
    OutputOption,
    exit_on_errors,
    print_json,
    print_line,
    with_json,
)
from flintmq.cli.shared.tables import Wrapped, print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.embedded.account_files import check_owner_only
from flintmq.errors import InvalidSetting
from flintmq.store.files.disk import Disk

app = typer.Typer(help="Show and change who may do what.", no_args_is_help=True, epilog=EXIT_CODES)
app.add_typer(acl_users.app, name="users")
app.add_typer(acl_policies.app, name="policies")
app.add_typer(acl_accounts.app, name="accounts")
app.add_typer(acl_quotas.app, name="quotas")


@app.command("explain")
@connected
def explain_decision(
    settings: ClientSettings,
    user: Annotated[str, typer.Argument(metavar="USER", help="The user, or the access key.")],
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help="Pub, Sub, Create, Update, Delete or Get.")
    ],
    resource: Annotated[
        str, typer.Argument(metavar="RESOURCE", help="Topic:name, Group:name or Cluster:name.")
    ],
    address: Annotated[
        str,
        typer.Option("--from", metavar="IP", help="The address of the user."),
    ] = "127.0.0.1",
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE|DIR",
            help="Decide by account files; else by the accounts of a running broker.",
            show_default=False,
        ),
    ] = None,
    broker: OnBroker = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show whether a user may do something, the rule that decides, and the quotas that count.

    Exit code 1 is no.  Quotas are those of a running broker.

    Examples:
        flintmq acl explain alice Pub Topic:orders --from 10.0.0.7
        flintmq acl explain alice Sub Group:billing --file /etc/flintmq/accounts
    """
    from flintmq.cli.acl.account_sources import control_of_broker, control_of_files
    from flintmq.client.admin import Admin

    need, source = parse_need(action, resource), parse_address(address)
    quotas: list[Quota] = []
    if source is None:
        raise InvalidSetting("--from", address, "it is no IP address")
    if file is not None:
        control = control_of_files(file)
    else:
        with Admin(**settings) as admin:
            control = control_of_broker(admin, broker)
            name = next(iter(admin.cluster().masters(broker=broker)))
            group = need.resource.name if need.resource.type is ResourceType.GROUP else None
            quotas = acl_quotas.quotas_that_count(acl_quotas.quotas_of(admin, name), user, group)
    decided = explain(control, user, need, source)
    _print_decision(user, str(need), address, decided, quotas, output)
    if not decided.is_allowed:
        raise typer.Exit(FAILED)


@app.command()
@with_json
def check(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|DIR",
            help="accounts.json, a YAML file of ACL 1.0, or the directory they are in.",
        ),
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """List everything that is wrong in account files.  Exit code 1: a server would refuse them.

    Examples:
        flintmq acl check flintmq-data/accounts
        flintmq acl check plain_acl.yml
    """
    from flintmq.cli.acl.account_sources import find_files, read_files

    with exit_on_errors():
        found: list[AccountFinding] = []
        for dialect, paths in find_files(path).items():
            files = read_files(path, paths)
            for each in paths:
                found += _mode_finding(each)
            if dialect is Dialect.AUTH:
                for name, content in files.items():
                    found += _placed(name, check_accounts_file(content))
            else:
                found += check_plain_files(files)
    _print_findings(found, output)
    if any(each.is_fault for each in found):
        raise typer.Exit(FAILED)


@app.command("import")
@with_json
def import_accounts(
    path: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The directory with plain_acl.yml and acl/, or a file."),
    ],
    to: Annotated[
        Path,
        typer.Option("--to", metavar="FILE", help="The accounts.json to make, or to add to."),
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Make users and policies of ACL 2.0 from accounts of ACL 1.0.

    What cannot be carried over is listed.  Users that are in the file already stay as they are.

    Examples:
        flintmq acl import /opt/rocketmq/conf --to flintmq-data/accounts/accounts.json
    """
    with exit_on_errors():
        before = _rules_at(to)
        done = import_plain(_plain_files(path), before)
        with Disk() as disk:
            disk.make_directory(to.absolute().parent)
            disk.replace(to.absolute(), accounts_of_rules(done.rules).to_file())
    if output is Output.JSON:
        print_json({"file": str(to), "users": done.users, "remarks": done.remarks})
        return
    print_line(f"{len(done.users)} users are added to {to}")
    for remark in done.remarks:
        print_line(f"  {remark}")


def _plain_files(path: Path) -> list[PlainFile]:
    from flintmq.cli.acl.account_sources import find_files, read_files

    paths = find_files(path).get(Dialect.PLAIN)
    if paths is None:
        raise InvalidSetting("accounts", str(path), "there are no accounts of ACL 1.0")
    accounts = PlainAccounts(lambda _name, _content: None)
    if not accounts.reload(read_files(path, paths)):
        raise InvalidSetting("accounts", str(path), accounts.fault or "")
    return list(accounts.files.values())


def _rules_at(path: Path) -> RuleSet:
    if not path.exists():
        return RuleSet()
    from flintmq.cli.acl.account_sources import control_of, read_files

    return control_of(Dialect.AUTH, read_files(path, [path]), str(path)).rules


def _mode_finding(path: Path) -> list[AccountFinding]:
    try:
        check_owner_only(path)
    except InvalidSetting as error:
        return [AccountFinding(path.name, error.reason)]
    return []


def _placed(name: str, found: list[AccountFinding]) -> list[AccountFinding]:
    return [AccountFinding(f"{name}: {each.place}", each.text, each.is_fault) for each in found]


def _print_findings(found: list[AccountFinding], output: Output) -> None:
    if output is Output.JSON:
        print_json(
            [{"fault": each.is_fault, "place": each.place, "text": each.text} for each in found]
        )
    elif not found:
        print_line("nothing is wrong")
    else:
        print_table(
            ("", "place", Wrapped("what is wrong")),
            (("fault" if each.is_fault else "warning", each.place, each.text) for each in found),
        )


def _print_decision(
    user: str,
    need: str,
    address: str,
    decided: Explanation,
    quotas: list[Quota],
    output: Output,
) -> None:
    if output is Output.JSON:
        print_json(
            {
                "user": user,
                "need": need,
                "from": address,
                "allowed": decided.is_allowed,
                "reason": decided.reason,
                "entry": None if decided.entry is None else str(decided.entry),
                "policy": None if decided.policy is None else decided.policy.title,
                "quotas": [str(quota) for quota in quotas],
            }
        )
        return
    print_line(f"{'allowed' if decided.is_allowed else 'denied'}: {user}, {need}, from {address}")
    print_line(decided.reason)
    for quota in quotas:
        print_line(f"quota: {quota}")
