"""The tables of the page, in Markdown, each from results that are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from benchmarks.report.goals import (
    BROKER,
    CLIENT,
    GROWTH,
    LAG_MS_MAX,
    LINES,
    METRICS,
    PLAIN,
    POP,
    PYTHON,
    REPLICATION,
    ROCKETMQ,
    SPARK,
    Line,
    Verdict,
    hardest,
    verdicts,
)
from benchmarks.report.results import Measured, Ratio, Results

NONE = "not measured"
BREAK = "<br>"

COMPARED = ("rate", "server_us", "slave_us", "p99_ms")
"""Of pairs."""

Found = Mapping[str, Results]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """With three digits that count, and none after the point from 100 on."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def figures(measured: Measured | None, side: str) -> str:
    """All that was measured of one side, in one cell."""
    if measured is None or side not in measured.rows:
        return NONE
    values = {metric: measured.median(side, metric) for metric in (*METRICS, "p50_ms", "median_ms")}
    lines = []
    if (rate := values["rate"]) is not None:
        lines.append(f"{number(rate)}/s")
    parts = {"server": "server_us", "client": "client_us"}
    cpu = [f"{who} {number(us)}" for who, name in parts.items() if (us := values[name]) is not None]
    if not cpu and (both := values["cpu_us"]) is not None:
        cpu = [f"CPU {number(both)}"]
    if cpu:
        lines.append(", ".join(cpu) + " µs")
    if (p50 := values["p50_ms"]) is not None and (p99 := values["p99_ms"]) is not None:
        lines.append(f"p50 {number(p50)}, p99 {number(p99)} ms")
    if (ready_s := values["ready_s"]) is not None:
        lines.append(f"{number(ready_s)} s")
    if (mib := values["private_mib"]) is not None:
        lines.append(f"{number(mib)} MiB")
    return BREAK.join(lines)


def ratio_text(ratio: Ratio | None) -> str:
    if ratio is None:
        return NONE
    if ratio.low == ratio.high:
        return f"{ratio.median:.2f}"
    return f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def compared(found: Sequence[Verdict], *, named: bool) -> str:
    """The ratios of a line, a line of text for each of the others."""
    others = list(dict.fromkeys(each.other for each in found))
    lines = []
    for other in others:
        ratios = [each for each in found if each.other == other and each.ratio is not None]
        text = ", ".join(f"{METRICS[v.goal.metric]} {ratio_text(v.ratio)}" for v in ratios)
        who = f"{other.removeprefix('RocketMQ ')}: " if named else ""
        lines.append(who + (text or NONE))
    return BREAK.join(lines)


def outcome(found: Sequence[Verdict]) -> str:
    measured = [each for each in found if each.ratio is not None]
    if not measured:
        return NONE
    missed = list(dict.fromkeys(METRICS[v.goal.metric] for v in measured if not v.is_met))
    return f"**missed**: {', '.join(missed)}" if missed else "met"


def goal_text(line: Line) -> str:
    return ", ".join(str(goal) for goal in line.goals)


def broker_table(results: Found) -> str:
    rows = []
    for line in LINES:
        if line.source == BROKER:
            measured, found = line.measured(results), list(verdicts(line, results))
            sides = [figures(measured, side) for side in (line.ours, PLAIN, *ROCKETMQ)]
            last = compared(found, named=True), goal_text(line), outcome(found)
            rows.append((line.title, *sides, *last))
    return table(
        ("work", "FlintMQ", "with the plain kernel", *ROCKETMQ, "ours / theirs", "goal", ""), rows
    )


def other_table(results: Found, source: str) -> str:
    """Goals against something else than the two brokers."""
    rows = []
    for line in LINES:
        if line.source == source:
            measured, found = line.measured(results), list(verdicts(line, results))
            known = [name for name in line.theirs if measured is None or name in measured.rows]
            beside = BREAK.join(
                f"{name}: {figures(measured, name)}".replace(BREAK, ", ") for name in known
            )
            ours, ratios = figures(measured, line.ours), compared(found, named=len(known) > 1)
            rows.append((line.title, ours, beside, ratios, goal_text(line), outcome(found)))
    return table(("work", "FlintMQ", "beside", "ours / theirs", "goal", ""), rows)


def sides_table(results: Found, source: str, ours: str = "flintmq") -> str:
    """Everything a comparison measured, a line for each side."""
    found = results.get(source)
    if found is None:
        return ""
    rows = []
    names = {"rate": "a second", "client_us": "client µs", "server_us": "server µs"}
    for measured in found.workloads.values():
        for side in sorted(measured.rows, key=lambda name: (not name.startswith(ours), name)):
            values = (measured.median(side, metric) for metric in names)
            cells = ("" if value is None else number(value) for value in values)
            rows.append((measured.name, side, *cells))
    return table(("work", "side", *names.values()), rows)


def spark_table(results: Found) -> str:
    found = results.get(SPARK)
    if found is None:
        return ""
    names = {"rate": "rows a second", "cpu_us": "CPU µs a row", "spark_us": "of Spark"}
    names |= {"broker_us": "of the broker", "median_ms": "batch, median ms"}
    rows = []
    for measured in found.workloads.values():
        for side in measured.rows:
            is_batch = measured.median(side, "median_ms") is not None
            wanted = {"median_ms"} if is_batch else set(names) - {"median_ms"}
            values = (measured.median(side, name) if name in wanted else None for name in names)
            cells = ("" if value is None else number(value) for value in values)
            rows.append((measured.name, side, *cells))
    return table(("work", "side", *names.values()), rows)


def replication_table(results: Found) -> str:
    """Every load of the pairs, a line for each pair, with what our pair is to it."""
    found = results.get(REPLICATION)
    if found is None:
        return ""
    names = {"rate": "a second", "server_us": "master µs", "slave_us": "slave µs"}
    names |= {"p50_ms": "p50 ms", "p99_ms": "p99 ms", "lag_ms": "lag ms"}
    rows = []
    for measured in found.workloads.values():
        for side in sorted(measured.rows, key=lambda name: (name != "flintmq", name)):
            values = (measured.median(side, metric) for metric in names)
            cells = ("" if value is None else number(value) for value in values)
            ratios = {name: measured.ratio("flintmq", side, name) for name in COMPARED}
            text = ", ".join(f"{METRICS[name]} {ratio_text(each)}" for name, each in ratios.items())
            rows.append((measured.name, side, *cells, "" if side == "flintmq" else text))
    lags = [
        row["lag_ms"] for each in found.workloads.values() for row in each.rows.get("flintmq", [])
    ]
    verdict = "met" if max(lags) < LAG_MS_MAX else "**missed**"
    goal = f"Longest lag of our slave in all rounds: {number(max(lags))} ms; goal: less than 1 s, "
    return f"{table(('work', 'pair', *names.values(), 'ours / theirs'), rows)}\n{goal}{verdict}.\n"


def growth_table(results: Found) -> str:
    found = results.get("growth")
    if found is None:
        return ""
    rows = []
    for panel in found.more["panels"]:
        for name, points in panel["lines"].items():
            first, last = points[0], points[-1]
            rows.append(
                (
                    panel["title"],
                    name,
                    *(f"{point[0]:,} {panel['unit']}" for point in (first, last)),
                    *(f"{number(point[1])} + {number(point[2])}" for point in (first, last)),
                    f"{(last[1] + last[2]) / (first[1] + first[2]):.2f}",
                )
            )
    head = ("what grows", "work", "from", "to", "server + client µs at first", "at last", "times")
    picture = "![CPU of a message against what grows](benchmarks-growth.png)\n\n"
    return picture + table(head, rows)


def soak_table(results: Found) -> str:
    found = results.get("soak")
    if found is None:
        return ""
    rows = (
        (
            trend["what"],
            *(number(trend[name]) for name in ("first", "last")),
            f"{trend['an_hour']:+.2f}",
            trend["verdict"],
        )
        for trend in found.more["trends"]
    )
    picture = "![Memory, descriptors, threads and CPU over time](benchmarks-soak.png)\n\n"
    return picture + table(("what", "at half time", "at the end", "more in an hour", ""), rows)


def ratios_picture(results: Found) -> str:
    is_measured = any(True for line in LINES for _ in hardest(line, results))
    return "![Ours to theirs, with the goals](benchmarks-ratios.png)\n" if is_measured else ""


def missed_list(results: Found) -> str:
    """The goals that do not hold, with by how much against the hardest of the others."""
    lines = []
    for line in LINES:
        missed = [each for each in hardest(line, results) if not each.is_met]
        texts = (f"{v.goal}, is {ratio_text(v.ratio)} against {v.other}" for v in missed)
        if missed:
            lines.append(f"- {line.title}: {'; '.join(texts)}")
    if not any(line.measured(results) for line in LINES):
        return ""
    return "\n".join(lines or ["Every goal that was measured holds."]) + "\n"


def profile_table(results: Found) -> str:
    """Where our CPU goes under the loads whose goals are missed."""
    found = results.get("profile")
    if found is None:
        return ""
    missed = {line.title: any(not each.is_met for each in hardest(line, results)) for line in LINES}
    rows = []
    for title, profile in found.more["profiles"].items():
        if missed[title]:
            parts = (f"`{part}` {share:.0%}" for part, share in profile["parts"])
            rows.append((title, ", ".join(parts), f"{profile['kernel']:.0%}"))
    return table(("work", "modules with their C code", "in the kernel"), rows)


def conditions(results: Found) -> str:
    """Machine, releases and settings of each run."""
    rows = []
    for name, found in results.items():
        about = found.machine
        cores, memory = f"{about['cores']} cores of {about['cpu']}", f"{about['memory_gib']} GiB"
        software = {"Python": about["python"], "Java": about["java"], **found.versions}
        rows.append(
            (
                f"`{name}`",
                f"{cores}, {memory}, {about['kernel']}",
                ", ".join(f"{what} {release}" for what, release in software.items()),
                ", ".join(f"{what} {value}" for what, value in found.settings.items()),
            )
        )
    return table(("run", "machine", "releases", "settings"), rows) if rows else ""


def skipped(results: Found) -> Iterator[str]:
    for name, found in results.items():
        for what, reason in found.skipped.items():
            yield f"`{name}` went without {what}: {reason}"


TABLES: dict[str, Callable[[Found], str]] = {
    "ratios": ratios_picture,
    "broker": broker_table,
    "client": lambda results: other_table(results, CLIENT),
    "client figures": lambda results: sides_table(results, CLIENT),
    "python": lambda results: other_table(results, PYTHON),
    "python figures": lambda results: sides_table(results, PYTHON),
    "spark": lambda results: other_table(results, SPARK),
    "spark figures": spark_table,
    "replication": replication_table,
    "replication goals": lambda results: other_table(results, REPLICATION),
    "pop": lambda results: other_table(results, POP),
    "growth": growth_table,
    "growth goals": lambda results: other_table(results, GROWTH),
    "soak": soak_table,
    "missed": missed_list,
    "profile": profile_table,
    "conditions": lambda results: conditions(results) + "\n".join(["", *skipped(results)]),
}
