"""Reads pages of monitoring as a scraper does, and scrapes as samples."""

from __future__ import annotations

import http.client
import shutil
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

BASE = {"cluster", "node_type", "node_id"}
"""Labels that all metrics of a broker have."""


class Series(NamedTuple):
    """One line of a scrape."""

    name: str
    labels: dict[str, str]
    value: float


class Scrape:
    """All series of one scrape, and what it says of them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.types: dict[str, str] = {}
        self.series: list[Series] = []
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.types[sample.name] = family.type
                self.series.append(Series(sample.name, dict(sample.labels), sample.value))

    @property
    def names(self) -> set[str]:
        return {each.name for each in self.series}

    def find(self, name: str, **labels: str) -> Iterator[Series]:
        for each in self.series:
            if each.name == name and labels.items() <= each.labels.items():
                yield each

    def value(self, name: str, **labels: str) -> float:
        """The value of the one series with these labels."""
        (found,) = self.find(name, **labels)
        return found.value

    def total(self, name: str, **labels: str) -> float:
        return sum(each.value for each in self.find(name, **labels))


def page(address: str, path: str, method: str = "GET", accept: str = "") -> tuple[int, str]:
    """Status and body of a page."""
    status, body, _ = page_and_type(address, path, method, accept)
    return status, body


def page_and_type(
    address: str, path: str, method: str = "GET", accept: str = ""
) -> tuple[int, str, str]:
    """Status, body and content type of a page."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request(method, path, headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers["Content-Type"] or ""
    finally:
        connection.close()


def scrape(address: str) -> Scrape:
    status, body = page(address, "/metrics")
    assert status == 200, body
    return Scrape(body)


def promtool(*arguments: str, text: str = "") -> tuple[int, str]:
    """Run promtool of Debian's package prometheus; its exit code and what it says."""
    program = shutil.which("promtool")
    assert program is not None
    done = subprocess.run(
        [program, *arguments], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


HAS_PROMTOOL = shutil.which("promtool") is not None
WITHOUT_PROMTOOL = "promtool is not installed: apt install prometheus"
