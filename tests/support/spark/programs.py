"""Runs programs one after the other in one process, so that those with Spark share a JVM.

    python programs.py DIRECTORY FILE...

Each runs as ``python FILE`` would run it.  What it prints is in DIRECTORY under the name of the
file, and how it failed under that name with ``.failed``.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path


def run(directory: Path, program: Path) -> None:
    printed = directory / program.stem
    sys.argv, sys.path[0] = [str(program)], str(program.parent)
    with printed.open("wb") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
    try:
        runpy.run_path(str(program), run_name="__main__")
    except BaseException:  # an exit is no better: all of them end by themselves
        printed.with_suffix(".failed").write_text(traceback.format_exc(), encoding="utf-8")
    sys.stdout.flush()


if __name__ == "__main__":
    where, *programs = sys.argv[1:]
    for each in programs:
        run(Path(where), Path(each))
