"""Options of every command that asks a cluster: where it is, and who we are.

`connected` adds them to a command, opens nothing, and turns errors into exit codes.  `overriding`
does so for a program that has settings of its own.

    flags  >  the cluster of --cluster or FLINTMQ_CLUSTER  >  variables  >  the default cluster

Invariant: of a cluster and the variables only one counts, whole; flags alone are mixed in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from flintmq.cli.shared.output import exit_on_errors, with_json, with_parameters
from flintmq.cli.shared.profiles import Profile, read_cluster_file
from flintmq.cli.shared.tls_options import choose_client_tls, option
from flintmq.client.engine.client_config import ClientSettings

HERE = "127.0.0.1:9876"

COMMAND_LINE, ENVIRONMENT = "COMMANDLINE", "ENVIRONMENT"
"""What typer calls where a value comes from."""

PANEL = "Connection"
"""Where the help shows these options."""

P = ParamSpec("P")

_option = partial(option, panel=PANEL)


def connection_settings(
    namesrv: Annotated[
        str,
        typer.Option(
            "--namesrv",
            "-n",
            envvar=["FLINTMQ_NAMESRV", "NAMESRV_ADDR"],
            metavar="HOST:PORT",
            help="The name server, or several with ; between them.",
            rich_help_panel=PANEL,
        ),
    ] = HERE,
    access_key: Annotated[
        str | None,
        _option(
            "--access-key", "FLINTMQ_ACCESS_KEY", "KEY", "The account, where brokers ask for one."
        ),
    ] = None,
    secret_key: Annotated[
        str | None,
        _option(
            "--secret-key",
            "FLINTMQ_SECRET_KEY",
            "SECRET",
            "Its secret; better given by the variable, which others cannot list.",
        ),
    ] = None,
    tls: Annotated[
        bool,
        typer.Option(
            "--tls", envvar="FLINTMQ_TLS", help="Speak TLS to every server.", rich_help_panel=PANEL
        ),
    ] = False,
    tls_ca: Annotated[
        str | None,
        _option(
            "--tls-ca",
            "FLINTMQ_TLS_CA",
            "FILE",
            "Trust certificates signed by this one; implies --tls.",
        ),
    ] = None,
    tls_cert: Annotated[
        str | None,
        _option(
            "--tls-cert",
            "FLINTMQ_CLIENT_CERT",
            "FILE",
            "The certificate (PEM) to show to servers that ask for one; implies --tls.",
        ),
    ] = None,
    tls_key: Annotated[
        str | None,
        _option(
            "--tls-key", "FLINTMQ_CLIENT_KEY", "FILE", "Its key, when it is in a file of its own."
        ),
    ] = None,
) -> ClientSettings:
    """What the options of a connection say."""
    chosen = choose_client_tls(tls_ca, tls_cert, tls_key)
    return {
        "namesrv": namesrv,
        "access_key": access_key,
        "secret_key": secret_key,
        "tls": tls if chosen is None else chosen,
    }


def connected(
    command: Callable[Concatenate[ClientSettings, P], None],
) -> Callable[..., None]:
    """A command that takes the options of a connection too, and gets them as its first argument."""
    return _with_connection(command, settings_of)


@dataclass(frozen=True, slots=True)
class GivenConnection:
    """What a user gave for a program that has settings of its own."""

    settings: ClientSettings
    words: tuple[str, ...] = field(default=(), repr=False)
    """The flags to give another process; a secret may be among them."""
    cluster: str | None = None

    @property
    def cluster_words(self) -> tuple[str, ...]:
        return () if self.cluster is None else ("--cluster", self.cluster)


def overriding(
    command: Callable[Concatenate[GivenConnection, P], None],
) -> Callable[..., None]:
    """`connected` for a program that has settings of its own: it gets only what the user gave."""
    return _with_connection(command, given_connection)


def settings_of(context: typer.Context) -> ClientSettings:
    """What a command line, a cluster's profile and the environment say about the connection.

    A flag beats the profile.  A profile beats all variables, so that no secret of one cluster is
    used at another; the default profile stands back where a name server is given.
    """
    given = {name: value for name, value in context.params.items() if name in _names()}
    profile = _named_profile(context)
    if profile is None and _source(context, "namesrv") not in (COMMAND_LINE, ENVIRONMENT):
        profile = _default_profile()
    return connection_settings(**(given if profile is None else _over(profile, context)))


def given_connection(context: typer.Context) -> GivenConnection:
    """Flags, the cluster that is named, or variables; the name server's is left to the client."""
    words: list[str] = []
    for each in context.command.params:
        if each.name in _names() and _source(context, each.name) == COMMAND_LINE:
            value = context.params[each.name]
            words += [each.opts[0]] if value is True else [each.opts[0], str(value)]
    profile = _named_profile(context)
    if profile is not None:
        settings = connection_settings(**_over(profile, context))
        return GivenConnection(settings, tuple(words), profile.name)
    given = {
        name: context.params[name]
        for name in _names()
        if _source(context, name) == COMMAND_LINE
        or (_source(context, name) == ENVIRONMENT and name != "namesrv")
    }
    made = connection_settings(**given)
    chosen: ClientSettings = {}
    if "namesrv" in given:
        chosen["namesrv"] = made["namesrv"]
    if "access_key" in given or "secret_key" in given:
        chosen["access_key"], chosen["secret_key"] = made["access_key"], made["secret_key"]
    if not given.keys().isdisjoint({"tls", "tls_ca", "tls_cert", "tls_key"}):
        chosen["tls"] = made["tls"]
    return GivenConnection(chosen, tuple(words))


# Inside


def _with_connection(
    command: Callable[..., None], read: Callable[[typer.Context], object]
) -> Callable[..., None]:
    own, shared = _parameters(command)[1:], _parameters(connection_settings)

    def run(context: typer.Context, **given: Any) -> None:
        for parameter in shared:
            del given[parameter.name]
        with exit_on_errors():
            command(read(context), **given)

    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return with_json(with_parameters(run, command, [context, *own, *shared]))


def _named_profile(context: typer.Context) -> Profile | None:
    """The cluster of --cluster or FLINTMQ_CLUSTER."""
    name = context.find_root().params.get("cluster")
    return None if name is None else read_cluster_file().find(name)


def _default_profile() -> Profile | None:
    file = read_cluster_file()
    return None if file.default is None else file.find(file.default)


def _over(profile: Profile, context: typer.Context) -> dict[str, Any]:
    """The values of a profile, and flags over them."""
    flags = [name for name in _names() if _source(context, name) == COMMAND_LINE]
    return profile.values() | {name: context.params[name] for name in flags}


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "" if source is None else source.name


def _names() -> list[str]:
    return [each.name for each in _parameters(connection_settings)]


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())
