"""Options of every command that asks a cluster: where it is, and who we are.

`connected` adds them to a command, opens nothing, and turns errors into exit codes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from flintmq.cli.shared.output import exit_on_errors
from flintmq.cli.shared.tls_options import choose_client_tls, option
from flintmq.client.engine.client_config import ClientSettings

HERE = "127.0.0.1:9876"

P = ParamSpec("P")


def _settings(
    namesrv: Annotated[
        str,
        typer.Option(
            "--namesrv",
            "-n",
            envvar=["FLINTMQ_NAMESRV", "NAMESRV_ADDR"],
            metavar="HOST:PORT",
            help="The name server, or several with ; between them.",
        ),
    ] = HERE,
    access_key: Annotated[
        str | None,
        option(
            "--access-key", "FLINTMQ_ACCESS_KEY", None, "The account, where brokers ask for one."
        ),
    ] = None,
    secret_key: Annotated[
        str | None,
        option(
            "--secret-key",
            "FLINTMQ_SECRET_KEY",
            None,
            "Its secret; better given by FLINTMQ_SECRET_KEY, which others cannot list.",
        ),
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", envvar="FLINTMQ_TLS", help="Speak TLS to every server.")
    ] = False,
    tls_ca: Annotated[
        str | None,
        option(
            "--tls-ca",
            "FLINTMQ_TLS_CA",
            "FILE",
            "Trust certificates signed by this one; implies --tls.",
        ),
    ] = None,
    tls_cert: Annotated[
        str | None,
        option(
            "--tls-cert",
            "FLINTMQ_CLIENT_CERT",
            "FILE",
            "The certificate (PEM) to show to servers that ask for one; implies --tls.",
        ),
    ] = None,
    tls_key: Annotated[
        str | None,
        option(
            "--tls-key", "FLINTMQ_CLIENT_KEY", "FILE", "Its key, when it is in a file of its own."
        ),
    ] = None,
) -> ClientSettings:
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
    own, shared = _parameters(command)[1:], _parameters(_settings)

    call: Callable[..., None] = command

    def run(**given: Any) -> None:
        options = {parameter.name: given.pop(parameter.name) for parameter in shared}
        with exit_on_errors():
            call(_settings(**options), **given)

    run.__module__ = command.__module__
    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in (*own, *shared)}
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())
