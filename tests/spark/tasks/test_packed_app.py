"""The functions of a program reach processes that have nothing but flintmq installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import tools
from package import inner
from flintmq import App
from flintmq.spark.tasks.packed_app import pack, read_program

WORD = "script"

def add(text):
    return f"{WORD} {text}"

app = App("group", namesrv="127.0.0.1:1")

@app.listener("topic")
def listener(messages):
    return tools.twice(add(inner.deep(messages)))

sys.stdout.buffer.write(pack(read_program(app)))
"""

ELSEWHERE = """
import sys
from flintmq.spark.tasks.packed_app import unpack

(listener,) = unpack(sys.stdin.buffer.read()).listeners
print(listener.function("x"))
"""


def test_a_script_takes_along_what_lies_beside_it(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "package").mkdir(parents=True)
    elsewhere.mkdir()
    (home / "script.py").write_text(SCRIPT)
    (home / "tools.py").write_text("import package.inner as i\ndef twice(t): return t + i.MARK + t")
    (home / "package/__init__.py").write_text("")
    (home / "package/inner.py").write_text("MARK = '!'\ndef deep(t): return t + MARK")

    packed = subprocess.run(
        [sys.executable, home / "script.py"], cwd=elsewhere, capture_output=True, check=True
    )
    told = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        cwd=elsewhere,
        input=packed.stdout,
        capture_output=True,
        check=True,
    )

    assert told.stdout.decode().strip() == "script x!!script x!"
