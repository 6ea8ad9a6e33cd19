"""The app that `flintmq run` names: ``MODULE:APP``, or ``FILE.py:APP``.

Its module is the user's code.  What goes wrong in it is shown as Python shows it, from the user's
first frame on; frames of ours and of the import system say nothing about it.

    exit 1   the module raises when it is imported
    exit 2   there is no such module, or no such app in it
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

import typer

from flintmq.cli.shared.server_process import NOT_STARTED, say
from flintmq.client.run_app import App

FRAMES_MAX: Final = 10
"""Frames of a traceback that are shown; a recursion has thousands."""

_OUR_FILES: Final = str(Path(__file__).parents[1])
_IMPORT_SYSTEM: Final = ("<frozen importlib", str(Path(importlib.__file__).parent))


def load(target: str) -> App:
    """Import an app.  What is in the current directory can be imported."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise typer.BadParameter(f"{target!r} is not MODULE:APP or FILE.py:APP")
    directory, module_name = _locate(place)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    module = _import(module_name, directory)
    app = getattr(module, name, None)
    if isinstance(app, App):
        return app
    if app is None:
        sentence = f"module {module_name!r} has no attribute {name!r}"
    else:
        sentence = f"{module_name}.{name} is of type {type(app).__name__}, not an App"
    known = [key for key, value in vars(module).items() if isinstance(value, App)]
    raise typer.BadParameter(f"{sentence}; apps in it: {', '.join(known) or 'none'}")


def _locate(place: str) -> tuple[str, str]:
    """The directory to import from, and the name of the module."""
    if not place.endswith(".py") and "/" not in place:
        return os.getcwd(), place  # noqa: PTH109  # sys.path has texts
    file = Path(place)
    if not file.is_file():
        raise typer.BadParameter(f"there is no file {place!r}")
    return str(file.parent.absolute()), file.stem


def _import(module_name: str, directory: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            reason = f"there is no module {module_name!r}: neither in {directory} nor installed"
            raise typer.BadParameter(reason) from None
        _show(module_name, error)  # something that the module itself needs
    except Exception as error:  # whatever the user's code raises
        _show(module_name, error)
    raise typer.Exit(NOT_STARTED)


def _show(module_name: str, error: Exception) -> None:
    """The user's part of a traceback, on stderr."""
    shown = traceback.TracebackException.from_exception(error, limit=-FRAMES_MAX)
    shown.stack = traceback.StackSummary.from_list(
        [frame for frame in shown.stack if _is_of_user(frame.filename)]
    )
    shown.__context__ = None
    say(f"module {module_name!r} cannot be imported\n{''.join(shown.format()).rstrip()}")


def _is_of_user(filename: str) -> bool:
    return not filename.startswith((_OUR_FILES, *_IMPORT_SYSTEM))
