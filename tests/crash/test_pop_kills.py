"""A broker that is killed while members pop loses no message, and brings back none that was acked.

A process serves pops on a store on the real disk and prints what its members know.  It is killed
at a moment drawn from the seed, again and again on the same directory; the last one takes the rest.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

POPPER = Path(__file__).with_name("popper.py")


def pop_and_kill(directory: Path, seed: int, after_s: float) -> list[str]:
    """Let a broker serve for a while and kill it; the lines it said."""
    process = subprocess.Popen(
        [sys.executable, POPPER, directory, str(seed)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "serves\n"
    stop = time.monotonic() + after_s
    lines = []
    while time.monotonic() < stop:
        lines.append(process.stdout.readline())
    process.kill()
    rest = process.stdout.read()
    process.stdout.close()
    process.wait()
    return ("".join(lines) + rest).rpartition("\n")[0].splitlines()


def take_the_rest(directory: Path) -> list[str]:
    """Start once more, and pop until nothing is left."""
    done = subprocess.run(
        [sys.executable, POPPER, directory], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[1:]


def run_pop_kills(directory: Path, kills: int, seed: int) -> None:
    chance = Random(seed)
    directory.mkdir()
    sent: set[str] = set()
    popped: set[str] = set()
    acked: set[str] = set()
    repeats = 0
    for kill in range(kills + 1):
        if kill < kills:
            lines = pop_and_kill(directory, seed + kill, chance.uniform(0.1, 0.6))
        else:
            lines = take_the_rest(directory)
        for line in lines:
            word, _, number = line.partition(" ")
            if word == "sent":
                sent.add(number)
            elif word == "popped":
                assert number not in acked, f"{number} was acknowledged and came back"
                repeats += number in popped
                popped.add(number)
            else:
                acked.add(number)
    assert not sent - popped, f"{sent - popped} are lost"
    print(f"{kills} kills: {len(sent)} sent, {len(acked)} acked, {repeats} repeats, 0 lost")


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(1_000, 11_000, 1_000))
def test_nothing_popped_is_lost_or_repeated_after_its_ack(seed: int, tmp_path: Path) -> None:
    run_pop_kills(tmp_path / "store", kills=10, seed=seed)
