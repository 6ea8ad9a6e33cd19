"""`flintmq sizing` computes what a load needs, for people and for programs."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from flintmq.cli.all_commands import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sizing", *arguments], env={"COLUMNS": "80"})


def test_programs_get_the_load_and_what_it_needs_in_bytes() -> None:
    done = run("--rate", "2000", "--size", "2k", "--replicas", "2", "--output", "json")

    facts = json.loads(done.stdout)
    assert facts["load"]["body_bytes"] == 2048
    assert facts["need"]["record_bytes"] > 2048 + 91
    assert facts["need"]["disk_bytes_of_all"] == 2 * facts["need"]["disk_bytes"]


def test_people_get_a_table_that_fits_eighty_columns() -> None:
    done = run("--rate", "1000")

    assert done.exit_code == 0
    assert "disk of a broker" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("wrong", [("--size", "big"), ("--rate", "1e12")])
def test_what_makes_no_sense_is_exit_code_2(wrong: tuple[str, str]) -> None:
    done = run(*wrong)

    assert done.exit_code == 2
    assert wrong[0].strip("-") in done.stderr
