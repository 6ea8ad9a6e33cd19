"""`TopicReport`: what was counted of topics, which writes itself as tables and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flintmq.reports.report_output import ready_directory
from flintmq.reports.topic_figures import TopicCounts
from flintmq.reports.topic_plot import plot_topics

PICTURE: Final = "report.png"


@dataclass(frozen=True, slots=True)
class TopicReport(TopicCounts):
    """The figures of a report, and its files."""

    def write(self, out: str) -> tuple[Path, ...]:
        """Write all tables and the picture; the paths of the files."""
        directory = ready_directory(out, PICTURE)
        picture = directory / PICTURE
        plot_topics(self, picture)
        return (*(each.write(directory) for each in self.tables()), picture)
