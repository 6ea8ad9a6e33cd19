"""The C++ client (PyPI ``rocketmq``, a binding with the library in it), installed once.

pip's own settings say where packages come from; what is installed must have this hash.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from support.interop.jvm import FETCH_TIMEOUT_S, make_once, run_tool

SOURCES = Path(__file__).parents[2] / "interop" / "cpp"
VERSION = "0.4.4"
WHEEL_HASH = "sha256:19a10219f5074d1050e88cdbdfed3903a374b3f83c0dd2c8773e1e93e33ad02d"
PLATFORM = ("Linux", "x86_64")
"""What the wheel is for."""


def missing_platform() -> str | None:
    """Why tests of this client must be skipped, or None."""
    here = platform.system(), platform.machine()
    return None if here == PLATFORM else f"the C++ client has no wheel for {' '.join(here)}"


def install() -> Path:
    """The directory to import ``rocketmq`` from."""

    def install_into(made: Path) -> None:
        wanted = made / "requirements.txt"
        wanted.write_text(f"rocketmq=={VERSION} --hash={WHEEL_HASH}\n")
        options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--target", str(made)]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", *options]
        run_tool([*pip, "--requirement", str(wanted)], FETCH_TIMEOUT_S)

    return make_once(f"cpp/{VERSION}", install_into)
