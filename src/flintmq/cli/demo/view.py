"""How a scene looks: a panel that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from flintmq.cli.demo.orders import GROUP, LEDGER, ORDERS, WANTED
from flintmq.cli.demo.story import QUEUES
from flintmq.cli.demo.tally import SPARK, THREADS
from flintmq.cli.demo.watch import Scene
from flintmq.model.group import retry_topic

LINE_EVERY_S: Final = 5.0
WIDTH_MAX: Final = 78
BAR: Final = 34
TICKS: Final = "▁▂▃▄▅▆▇█"
SPARKLINE: Final = 40

COLOURS: Final = {SPARK: "dark_orange", THREADS: "dodger_blue1"}
RETRIES: Final = "retries"


class View:
    """Shows scenes.  ``with`` begins and ends the show."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._told_s = 0.0
        self._act = ""

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, scene: Scene) -> None:
        if self._live is not None:
            self._live.update(draw(scene), refresh=True)
            return
        now_s = time.monotonic()
        if scene.act != self._act or now_s - self._told_s >= LINE_EVERY_S:
            self._act, self._told_s = scene.act, now_s
            self._console.print(line(scene), highlight=False, soft_wrap=True)


def line(scene: Scene) -> str:
    """A scene in one line."""
    totals, now = scene.totals, scene.now
    parts = [
        f"{clock(scene.elapsed_s)}  {scene.act}",
        f"sent {now.sent:,} of {scene.count:,}",
        f"consumed {totals.consumed:,}",
        f"lag {now.lag:,}",
        f"waiting {now.waiting:,}",
        f"sent back {totals.sent_back:,}",
        f"dead {totals.dead:,}",
        f"repeats {totals.repeats:,}",
    ]
    return "  ".join(parts)


def draw(scene: Scene) -> RenderableType:
    """A scene as a panel."""
    title = Text.assemble(("flintmq demo", "bold"), f"  {clock(scene.elapsed_s)}")
    about = f"group {GROUP} consumes {ORDERS} ({WANTED}) and, in order, {LEDGER}"
    body = Group(
        Text(scene.act, "bold"),
        Text(about, "grey62"),
        "",
        _bars(scene),
        "",
        _numbers(scene),
        "",
        _owners(scene),
    )
    return Panel(body, title=title, title_align="left", width=WIDTH_MAX, padding=(1, 2))


def _bars(scene: Scene) -> Table:
    now = scene.now
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=8)
    grid.add_column(width=BAR)
    grid.add_column(justify="right", width=18)
    grid.add_column(justify="right", width=8)
    sent = ProgressBar(scene.count, now.sent, width=BAR, complete_style="grey62")
    grid.add_row("sent", sent, f"{now.sent:,} of {scene.count:,}", _rate(scene.sent_rate))
    for runner, count, rate in (
        (SPARK, now.by_spark, scene.spark_rate),
        (THREADS, now.by_threads, scene.threads_rate),
    ):
        colour = COLOURS[runner]
        bar = ProgressBar(scene.count, count, width=BAR, complete_style=colour)
        grid.add_row(Text(runner, colour), bar, f"consumed {count:,}", _rate(rate))
    return grid


def _numbers(scene: Scene) -> Table:
    totals, now = scene.totals, scene.now
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=20)
    grid.add_column(justify="right", width=7)
    grid.add_column(width=SPARKLINE + 2)
    grid.add_row("lag", f"{now.lag:,}", Text(f" {sparkline(scene.lags)}", "grey62"))
    grid.add_row("waiting for a retry", f"{now.waiting:,}", "")
    grid.add_row("sent back", f"{totals.sent_back:,}", "")
    grid.add_row("dead letters", f"{totals.dead:,}", "")
    grid.add_row("repeats", f"{totals.repeats:,}", "")
    return grid


def _owners(scene: Scene) -> Table:
    """Who has which queues now."""
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_row(
        "queues of", Text(ORDERS, "grey62"), Text(LEDGER, "grey62"), Text(RETRIES, "grey62")
    )
    topics = {**QUEUES, retry_topic(GROUP): 1}
    for runner in (SPARK, THREADS):
        own = scene.owners.get(runner, {})
        cells = [
            Text(" ".join(str(at) if at in own.get(topic, ()) else "·" for at in range(count)))
            for topic, count in topics.items()
        ]
        colour = COLOURS[runner]
        for cell in cells:
            cell.stylize(colour)
        grid.add_row(Text(runner, colour), *cells)
    return grid


def sparkline(values: tuple[int, ...], width: int = SPARKLINE) -> str:
    """Values over time as bars, the highest of each stretch."""
    if not values:
        return ""
    stretch = -(-len(values) // width)
    highest = [max(values[at : at + stretch]) for at in range(0, len(values), stretch)]
    top = max(highest)
    return "".join(TICKS[0 if not top else -(-each * (len(TICKS) - 1) // top)] for each in highest)


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}/s"


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
