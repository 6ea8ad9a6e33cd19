"""Jobs built on the source: lake, topic report, dead-letter report and replay."""
