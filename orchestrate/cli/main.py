"""The console entry point, and the one place where an error becomes an exit code."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from orchestrate.errors import (
    ConfigError,
    DefinitionError,
    InternalError,
    NoSuchRunError,
    OrchestrateError,
    RunElsewhereError,
    complete_hints,
    completed,
)
from orchestrate.exits import BUG, INTERRUPTED, OUTPUT_CLOSED
from orchestrate.interrupts import raise_on_ctrl_c
from orchestrate.show.output import (
    OutputClosed,
    abandon_output,
    answer_json,
    finish_output,
    note,
    output_given_up,
    prepare_streams,
    wants_colour,
)

_FAULTS_OF_THE_MACHINE = (
    errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
)  # fmt: skip
_REPORT_IT = "this is a bug in orchestrate; please report it with the command and the file"


def main() -> None:
    """The console entry point."""
    # A command makes many objects that live to its end, which is soon: look for garbage rarely.
    gc.set_threshold(100_000, 20, 20)
    _leave(_run_interruptible(sys.argv[1:]))


def _run_interruptible(arguments: Sequence[str]) -> int:
    """From here on Ctrl-C is an exception; until here it ended us at once (`__main__`)."""
    try:
        raise_on_ctrl_c()
        return run_command(arguments)
    except KeyboardInterrupt:  # outside of what `run_command` guards
        return INTERRUPTED


def _leave(code: int) -> NoReturn:
    """End at once: to take Python apart first takes longer than a quick step.

    Not where the interpreter is traced (coverage), which writes at its end what it saw.
    """
    threads = sys.modules.get("threading")
    is_alone = threads is None or threads.active_count() == 1
    if not is_alone or sys.gettrace() or sys.getprofile() or "coverage" in sys.modules:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # closed, or never there: `run_command` has reported it
    os._exit(code)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line to its exit code."""
    prepare_streams()
    complete_hints(lambda hint: _with_folders(hint, arguments))
    settings: dict[str, Any] = {"json": False}
    told: OrchestrateError | None = None
    try:
        try:
            code = _carry_out(arguments, settings)
        except InternalError as error:
            told = _of_the_installation(error) or error
            tell(told, as_json=settings["json"])
            code = told.exit_code
        except OrchestrateError as error:
            error.hint = completed(error.hint)
            told = error
            tell(error, as_json=settings["json"])
            code = error.exit_code
        finish_output()
        lost = output_given_up()
        if lost is not None:
            tell(lost, as_json=False)
            code = code or lost.exit_code
    except OutputClosed:
        abandon_output()
        return OUTPUT_CLOSED
    except KeyboardInterrupt:
        abandon_output()
        note("orchestrate: interrupted\n")
        return INTERRUPTED
    except OrchestrateError as error:
        # The answer, or the error itself, could not be written, e.g. because the disk is full.
        abandon_output()
        if told is None or told.message != error.message:
            tell(error, as_json=False)
        return error.exit_code
    except Exception as error:  # noqa: BLE001  the user gets a line, whatever it is
        fault = _of_the_machine(error) or _of_the_installation(error)
        if fault is not None:
            tell(fault, as_json=False)
            return fault.exit_code
        _tell_bug(error)
        return BUG
    return code


def _with_folders(hint: str, arguments: Sequence[str]) -> str:
    """A hint whose commands find the run again where it was said to be."""
    if not hint or not any(word.startswith(("--working-dir", "--state-dir")) for word in arguments):
        return hint
    from orchestrate.view.place import place_in

    return place_in(arguments).completed(hint)


def _of_the_machine(error: Exception) -> OrchestrateError | None:
    """A disk that fails or is full, or no descriptors left: no bug of ours, wherever it is met."""
    if not isinstance(error, OSError) or error.errno not in _FAULTS_OF_THE_MACHINE:
        return None
    from pathlib import Path

    from orchestrate.errors import explain

    return explain("use", Path(os.fsdecode(error.filename or "a file")), error)


def _of_the_installation(error: Exception) -> OrchestrateError | None:
    """What came of an upgrade or a removal under us; what a run needs for its end it has loaded."""
    try:
        from orchestrate.installation import replacement_of
    except ImportError:
        message = f"orchestrate was upgraded or removed while it was at work ({error})"
        return ConfigError(message, "make sure that it is installed, then run the command again")
    return replacement_of(error)


def _visible(text: str) -> str:
    try:
        from orchestrate.plan.visible import visible
    except ImportError:
        return text.encode("ascii", "backslashreplace").decode("ascii")
    return visible(text)


def _carry_out(arguments: Sequence[str], settings: dict[str, Any]) -> int:
    """Here, or on the machine where the run is that was named."""
    try:
        return _dispatch(arguments, settings)
    except NoSuchRunError as error:
        from orchestrate.fleet.settings import may_be_on_server

        if not may_be_on_server(error.named):
            raise
        from orchestrate.fleet.away import find_on_server

        # With a stub of it in the workspace, it is a run of a fleet like any other.
        find_on_server(error)
        return _carry_out(arguments, settings)
    except RunElsewhereError as error:
        from orchestrate.cli.resume_flags import flags_of_resume
        from orchestrate.fleet.away import hand_over

        return hand_over(arguments, error, flags_of_resume)


def _dispatch(arguments: Sequence[str], settings: dict[str, Any]) -> int:
    """What is called most needs no click: `validate FILE...`, `run FILE`, `resume`, `status`."""
    if arguments[:1] == ["validate"] and len(arguments) > 1:
        files = tuple(arguments[1:])
        if not any(name.startswith("-") for name in files):
            from orchestrate.cli.validating import validate_files

            return validate_files(files)
    if arguments[:1] in (["run"], ["resume"], ["status"]):
        from orchestrate.cli.plain_line import carry_out_plainly

        code = carry_out_plainly(arguments, settings)
        if code is not None:
            return code
    from orchestrate.cli.group import run_group

    return run_group(arguments, settings)


def tell(error: OrchestrateError, *, as_json: bool) -> None:
    """An error for people, and as the one JSON document if that was asked for."""
    if isinstance(error, DefinitionError):
        from orchestrate.show.findings import count_line, draw

        note(draw(error.diagnostics, colour=wants_colour(sys.stderr)))
        note(count_line(error.diagnostics) + "\n")
    else:
        first, *more = map(_visible, error.lines)
        note(f"orchestrate: {first}\n" + "".join(f"  {line}\n" for line in more))
        hint = _REPORT_IT if isinstance(error, InternalError) and not error.hint else error.hint
        note("".join(f"  hint: {_visible(line)}\n" for line in hint.splitlines()))
    if as_json:
        facts: dict[str, Any] = {"message": error.message, "hint": error.hint}
        document: dict[str, Any] = {"error": {**facts, "exit_code": error.exit_code}}
        if isinstance(error, DefinitionError):
            from orchestrate.show.formats import error_document

            document = error_document(error)
        answer_json(document)


def _tell_bug(error: Exception) -> None:
    if os.environ.get("ORCHESTRATE_DEBUG") == "1":
        import traceback

        note("".join(traceback.format_exception(error)))
    note(f"orchestrate: unexpected {type(error).__name__}: {_visible(str(error))[:500]}\n")
    note(f"  hint: {_REPORT_IT}; ORCHESTRATE_DEBUG=1 shows where it happened\n")
