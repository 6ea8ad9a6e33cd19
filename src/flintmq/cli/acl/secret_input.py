"""Secrets from a file, from the environment, or typed without echo.

A secret is never an argument: other users of the machine can list those.  It is never printed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import typer

from flintmq.errors import InvalidSetting

SECRET_BYTES_MAX: Final = 4_096
"""A longer file is no secret but a file given by mistake."""


def read_secret(file: Path | None, variable: str, what: str) -> str:
    """The secret in the file, or in the variable, or what the user types twice."""
    if file is not None:
        return _of_file(file)
    if given := os.environ.get(variable):
        return given
    typed: str = typer.prompt(what, hide_input=True, confirmation_prompt=True, err=True)
    return typed


def _of_file(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(SECRET_BYTES_MAX + 1)
        text = content.decode().rstrip("\r\n")
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        raise InvalidSetting("secret file", str(file), reason) from None
    except UnicodeDecodeError:
        raise InvalidSetting("secret file", str(file), "it is no text") from None
    if not text or "\n" in text or len(content) > SECRET_BYTES_MAX:
        raise InvalidSetting("secret file", str(file), "it must be one line with the secret")
    return text
