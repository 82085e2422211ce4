"""The `radixflow` command: parse, call, print. What a command means is CONTRACT 3's.

Exit codes: 0 done; 2 bad input, one line on stderr; 3 the run stalled; 130 interrupted, trace kept. The commands are
in `radixflow.commands`, a file for each thing people do.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point: bad input becomes one line and exit 2, never a traceback."""
    try:
        # Imported here, so that an interrupt meanwhile is one as well.
        from radixflow.commands import app
        from radixflow.commands.shared import Interrupted
        from radixflow.printing import complain
    except KeyboardInterrupt:
        sys.stderr.write("radixflow: interrupted\n")
        sys.exit(130)
    try:
        code = app(standalone_mode=False)
        if code == 130:  # what typer makes of a KeyboardInterrupt
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(130)
    except Interrupted as interrupted:
        complain(f"interrupted; {interrupted}")
        sys.exit(130)
    except BrokenPipeError:  # `radixflow rounds ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if not _is_bad_input(error):
            raise
        complain(_line(error))
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _is_bad_input(error: Exception) -> bool:
    # Click's own usage errors, and ours; each knows what, where and what was expected.
    if isinstance(error, KeyError):  # ours are sentences; any other is a fault of ours and shows its traceback
        return bool(error.args) and isinstance(error.args[0], str) and " " in error.args[0]
    return (
        hasattr(error, "format_message")
        or isinstance(error, ValueError | OSError | ImportError)
        or (type(error).__name__ in ("TraceError", "WorkloadError", "EngineError"))
    )


def _line(error: Exception) -> str:
    if hasattr(error, "format_message"):
        said = error.format_message().replace("\n", " ")
        command = getattr(getattr(error, "ctx", None), "command_path", None)
        return f"{said.rstrip('.')}; `{command} --help` says what it takes" if command else said
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error).strip().replace("\n", " ")


if __name__ == "__main__":
    main()
