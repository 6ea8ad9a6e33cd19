"""The whole `flintmq` command, for whoever wants all of it at once."""

from __future__ import annotations

from flintmq.cli.main import make_app

app = make_app()
