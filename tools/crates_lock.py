"""The lock file of the compiled kernel, without addresses: ``native/crates.lock``.

    native/crates.lock ─restore─► native/Cargo.lock     before a build
    native/Cargo.lock  ─save────► native/crates.lock    after `cargo update`

A Cargo.lock says of every crate where it comes from.  The lock files of this repository hold
names, versions and hashes only, so that they install through any mirror; cargo adds the source it
is set up with, and checks the hashes.

    python tools/crates_lock.py restore|save
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

NATIVE: Final = Path(__file__).parent.parent / "native"
SOURCE: Final = "source = "
CHECKSUM: Final = "checksum = "


def save(directory: Path) -> None:
    """Keep what `cargo` wrote, without the sources."""
    lines = (directory / "Cargo.lock").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(SOURCE)]
    (directory / "crates.lock").write_text("".join(kept))


def restore(directory: Path) -> None:
    """Write a Cargo.lock that `cargo` accepts with ``--locked``; a right one stays untouched."""
    source = own_source(directory)
    text = "".join(
        source + line if line.startswith(CHECKSUM) else line
        for line in (directory / "crates.lock").read_text().splitlines(keepends=True)
    )
    path = directory / "Cargo.lock"
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def own_source(directory: Path) -> str:
    """The line by which this cargo names the registry of crates."""
    with tempfile.TemporaryDirectory() as place:
        manifest = Path(place, "Cargo.toml")
        manifest.write_text((directory / "Cargo.toml").read_text())
        Path(place, "src").mkdir()
        Path(place, "src", "lib.rs").touch()
        subprocess.run(
            ["cargo", "generate-lockfile", "--quiet", "--manifest-path", str(manifest)], check=True
        )
        lines = Path(place, "Cargo.lock").read_text().splitlines(keepends=True)
    return next(line for line in lines if line.startswith(SOURCE))


if __name__ == "__main__":
    {"save": save, "restore": restore}[sys.argv[1]](NATIVE)
