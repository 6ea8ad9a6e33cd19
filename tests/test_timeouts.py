"""No test waits for ever, whatever it does with the alarm of its timeout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SWALLOWS = """
import threading

def test_that_catches_the_alarm():
    try:
        threading.Event().wait()
    except BaseException:
        pass
    threading.Event().wait()
"""
PLUGINS = ["-p", "pytest_timeout", "-p", "support.timeouts"]
PATIENCE_S = 60.0


def test_a_test_that_catches_its_alarm_is_ended_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "test_swallows.py").write_text(SWALLOWS)

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, "--timeout", "1", "-q"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert ended.returncode == 1, ended.stdout
    assert "1 failed" in ended.stdout
    assert "Timeout" in ended.stdout
