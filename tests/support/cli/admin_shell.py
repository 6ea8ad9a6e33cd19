"""Commands of `flintmq`, run with an account in front of a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from support.cli.asking import Ended


class AdminShell:
    """A super user in front of a cluster; all that was printed is kept."""

    def __init__(self, namesrv: str, name: str, secret: str) -> None:
        self._environment: dict[str, str | None] = {
            "COLUMNS": "200",
            "FLINTMQ_NAMESRV": None,
            "NAMESRV_ADDR": namesrv,
            "FLINTMQ_ACCESS_KEY": name,
            "FLINTMQ_SECRET_KEY": secret,
        }
        self.printed = ""

    def run(self, *words: str | Path, typed: str | None = None, **variables: str) -> Ended:
        environment = {**self._environment, **variables}
        done = CliRunner().invoke(app, [str(word) for word in words], env=environment, input=typed)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        self.printed += done.output
        return Ended(done.exit_code, done.stdout, done.stderr)

    def told(self, *words: str | Path, typed: str | None = None, **variables: str) -> str:
        done = self.run(*words, typed=typed, **variables)
        assert done.exit_code == 0, done
        return done.stdout

    def facts(self, *words: str | Path) -> Any:
        return json.loads(self.told(*words, "--json"))
