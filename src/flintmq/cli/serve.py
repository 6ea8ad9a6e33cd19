"""`flintmq serve`: a name server and a broker in one process.

Once both answer and the broker is registered, one line goes to stdout:

    flintmq ready namesrv=HOST:PORT broker=HOST:PORT data=DIR

What a flag says beats the environment, which beats the file, RocketMQ's broker.conf.  Exit
codes are those of `server_process`.
"""

from __future__ import annotations

from dataclasses import replace

import typer

from flintmq.cli.broker import Chosen, choose
from flintmq.cli.shared.server_options import (
    Advertise,
    BrokerListen,
    BrokerName,
    Config,
    Data,
    FastPort,
    FlushMode,
    Level,
    NamesrvListen,
)
from flintmq.cli.shared.server_process import (
    LogLevel,
    exit_with_error,
    is_everywhere,
    say,
    serve_until_told,
    stop_signal,
    stopping_or_failed,
    warn_if_open,
)
from flintmq.cli.shared.tls_options import Mode, TlsCert, TlsClientCa, TlsKey, choose_tls
from flintmq.errors import FlintError
from flintmq.nameserver.config import HERE as NAMESRV_HERE
from flintmq.nameserver.config import NameServerConfig
from flintmq.net.address import Address
from flintmq.net.tls import ServerTls, TlsMode

SETTINGS_FILE = "namesrv/kvConfig.json"
"""In the data directory: what people put over the wire into the name server."""


def serve(
    data: Data = None,
    namesrv_listen: NamesrvListen = None,
    broker_listen: BrokerListen = None,
    flush: FlushMode = None,
    advertise: Advertise = None,
    config: Config = None,
    name: BrokerName = None,
    fast_port: FastPort = True,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    tls_mode: Mode = TlsMode.PERMISSIVE,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Run a name server and a broker until they are told to stop."""
    try:
        chosen = choose(
            data=data,
            listen=broker_listen,
            name=name,
            flush=flush,
            advertise=advertise,
            file=config,
            fast_port=fast_port,
        )
        namesrv = NAMESRV_HERE if namesrv_listen is None else Address.parse(namesrv_listen)
        tls = choose_tls(tls_cert, tls_key, tls_client_ca, tls_mode)
    except FlintError as error:
        exit_with_error(error)
    if chosen.namesrv is not None:
        say(f"{config}: namesrvAddr is not used: serve runs a name server of its own")
    warn_if_open([namesrv, chosen.listen], tls)
    serve_until_told(_serve(chosen, namesrv, tls), log_level)


async def _serve(chosen: Chosen, namesrv: Address, tls: ServerTls | None) -> None:
    # only who serves waits for them to load
    from flintmq.embedded.servers import BrokerPlan, NameServerPlan, Servers

    stopping = stop_signal()
    servers = await Servers.start(
        [
            BrokerPlan(
                directory=chosen.directory,
                config=chosen.config,
                listen=chosen.listen,
                advertise=chosen.advertise,
            )
        ],
        [
            NameServerPlan(
                config=NameServerConfig(listen=namesrv),
                settings_file=chosen.directory / SETTINGS_FILE,
            )
        ],
        tls=tls,
    )
    try:
        ((name, broker),) = servers.brokers.items()
        for server in servers.name_servers:
            server.state.reserve(name, broker.state.address)
        where = servers.namesrv[0]
        if is_everywhere(where.host):  # nobody connects to that
            where = replace(where, host=Address.parse(broker.state.address).host)
        typer.echo(
            f"flintmq ready namesrv={where} broker={broker.state.address} data={chosen.directory}"
        )
        await stopping_or_failed(stopping, broker.failed)
    finally:
        await servers.stop()
