"""Options of the commands that serve: `broker`, `namesrv` and `serve` declare each of them once.

None has a default here: what is not given comes from the environment, then from the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flintmq.cli.shared.server_process import LogLevel
from flintmq.cli.shared.tls_options import option
from flintmq.nameserver.config import HERE as NAMESRV_HERE
from flintmq.net.address import Address
from flintmq.store.files.store_config import Flush

BROKER_HERE = Address("127.0.0.1", 10911)
"""RocketMQ's own port, on loopback unless told otherwise."""

DATA = Path("flintmq-data")

KV_FILE = "kvConfig.json"
"""What RocketMQ calls the file of a name server's settings."""


_LISTEN = ("FLINTMQ_BROKER_LISTEN", "HOST:PORT")
_NAMESRV_LISTEN = ("FLINTMQ_NAMESRV_LISTEN", "HOST:PORT")

Data = Annotated[
    Path | None,
    option(
        "--data",
        "FLINTMQ_DATA",
        "DIR",
        f"The store directory; {DATA} in the working directory unless told otherwise.",
    ),
]
Config = Annotated[
    Path | None,
    option(
        "--config",
        "FLINTMQ_CONFIG",
        "FILE",
        "A broker.conf: key=value lines under RocketMQ's names.",
    ),
]
FlushMode = Annotated[
    Flush | None,
    option(
        "--flush",
        "FLINTMQ_FLUSH",
        None,
        "When a send is acknowledged: sync, once it is on the disk, or async, once the system "
        "has it.  sync unless told otherwise.",
    ),
]
Advertise = Annotated[
    str | None,
    option(
        "--advertise",
        "FLINTMQ_ADVERTISE",
        "HOST[:PORT]",
        "What clients are told to connect to (brokerIP1), when it is not where we listen.",
    ),
]
BrokerName = Annotated[
    str | None,
    option(
        "--name",
        "FLINTMQ_BROKER_NAME",
        "NAME",
        "The name of the broker in its cluster; broker-a unless told otherwise.",
    ),
]
Listen = Annotated[
    str | None,
    option("--listen", *_LISTEN, f"Where to listen; {BROKER_HERE} unless told otherwise."),
]
BrokerListen = Annotated[
    str | None,
    option(
        "--broker-listen",
        *_LISTEN,
        f"Where the broker listens; {BROKER_HERE} unless told otherwise.",
    ),
]
FastPort = Annotated[
    bool,
    typer.Option(
        "--fast-port/--no-fast-port",
        envvar="FLINTMQ_FAST_PORT",
        help="Also listen two ports below, where RocketMQ's fast channel (vipChannelEnabled) and "
        "rocketmq-dashboard go.",
    ),
]
Level = Annotated[
    LogLevel, typer.Option("--log-level", envvar="FLINTMQ_LOG_LEVEL", help="How much to log.")
]
Namesrv = Annotated[
    str | None,
    typer.Option(
        "--namesrv",
        envvar=["FLINTMQ_NAMESRV", "NAMESRV_ADDR"],
        metavar="HOST:PORT[;HOST:PORT…]",
        help=f"The name servers to register at; {NAMESRV_HERE} unless told otherwise.",
        show_default=False,
    ),
]
NamesrvListen = Annotated[
    str | None,
    option(
        "--namesrv-listen",
        *_NAMESRV_LISTEN,
        f"Where the name server listens; {NAMESRV_HERE} unless told otherwise.",
    ),
]
NamesrvOwnListen = Annotated[
    str | None,
    option("--listen", *_NAMESRV_LISTEN, f"Where to listen; {NAMESRV_HERE} unless told otherwise."),
]
NamesrvConfig = Annotated[
    Path | None,
    option(
        "--config",
        "FLINTMQ_NAMESRV_CONFIG",
        "FILE",
        "A namesrv.conf: key=value lines under RocketMQ's names.",
    ),
]
NamesrvData = Annotated[
    Path | None, option("--data", "FLINTMQ_NAMESRV_DATA", "DIR", f"Where to keep {KV_FILE}.")
]
