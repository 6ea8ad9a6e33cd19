"""The dashboard and the alert rules in `deploy/monitoring` ask for metrics that are there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from flintmq.broker.monitoring import broker_families
from flintmq.metrics import exposition
from flintmq.metrics.families import Kind
from flintmq.nameserver import monitoring as namesrv
from support.metrics.scraping import HAS_PROMTOOL, WITHOUT_PROMTOOL, promtool

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "flintmq-dashboard.json").read_text())
RULES = FOLDER / "flintmq-rules.yml"

OTHERS = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Of Prometheus itself, and of prometheus-client."""

METRIC = re.compile(r"\b(?:rocketmq|flintmq|process)_\w+|\bup\b")


def served_names() -> set[str]:
    names = set(OTHERS)
    for family in (*broker_families.FAMILIES, *namesrv.FAMILIES, *exposition.FAMILIES):
        endings = ("_bucket", "_sum", "_count") if family.kind is Kind.HISTOGRAM else ("",)
        names.update(family.name + ending for ending in endings)
    return names


def expressions() -> list[str]:
    """Every question of the dashboard."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    variables = DASHBOARD["templating"]["list"]
    return found + [each["definition"] for each in variables if "definition" in each]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def without_strings(expression: str) -> str:
    return re.sub(r'"[^"]*"', '""', expression)


def test_every_metric_of_the_dashboard_is_served() -> None:
    used = {name for each in expressions() for name in METRIC.findall(without_strings(each))}

    assert len(used) > 30
    assert used - served_names() == set()


def test_every_metric_of_the_rules_is_served() -> None:
    used = {name for rule in rules() for name in METRIC.findall(without_strings(rule["expr"]))}

    assert len(used) > 10
    assert used - served_names() == set()


def test_every_label_of_a_question_is_one_of_its_metric() -> None:
    labels = {
        family.name: {*family.labels, "cluster", "node_type", "node_id", "le", "job"}
        for family in broker_families.FAMILIES
    }
    for expression in [*expressions(), *(rule["expr"] for rule in rules())]:
        for name, matchers in re.findall(r"(\w+)\{([^}]*)\}", expression):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            known = labels.get(name) or labels.get(base)
            if known is not None:
                assert set(re.findall(r"(\w+)\s*[=!]", without_strings(matchers))) <= known, name


def test_panels_have_places_and_ids_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    places = [tuple(panel["gridPos"].values()) for panel in panels]

    assert len({panel["id"] for panel in panels}) == len(panels) == len(set(places))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_every_alert_says_what_is_wrong_and_how_bad() -> None:
    for rule in rules():
        assert rule["alert"].startswith("Flintmq")
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")


@pytest.mark.skipif(not HAS_PROMTOOL, reason=WITHOUT_PROMTOOL)
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "flintmq-rules.yml"),
        ("test", "rules", "flintmq-rules-test.yml"),
        ("check", "config", "prometheus.yml"),
    ],
)
def test_promtool_takes_the_files(arguments: tuple[str, str, str]) -> None:
    *words, name = arguments

    code, said = promtool(*words, str(FOLDER / name))

    assert code == 0, said
