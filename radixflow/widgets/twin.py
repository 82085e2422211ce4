"""A second process for the second of two runs: this one, forked once vLLM is loaded.

    this process   run above | open | numbers ........ take | draw
    the twin       run below | open | numbers | answer

A fork has vLLM already and shares its memory until somebody writes to it, so it is there in some 30 ms and costs some
30 MB, where a process of its own would take half a minute of imports and 700 MB. It only ever runs the simulated
engine: pure Python, no thread, no device.
"""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.util
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 60.0
"""Seconds after which an answer isn't waited for any longer."""


class TwinLost(RuntimeError):
    """The twin ended, or doesn't answer: what was asked of it has to be done here."""


class Twin:
    """A fork of this process that does what it is asked, one thing at a time."""

    def __init__(self) -> None:
        forking = multiprocessing.get_context("fork")
        ours, theirs = forking.Pipe()
        self._pipe = ours
        self._asked = 0
        self._process = forking.Process(target=_serve, args=(theirs, ours), name="radixflow-twin", daemon=True)
        # An interrupt meanwhile is for this process: the twin lets none in before it has said that it ignores them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of locks that other threads hold; the twin takes none of a notebook's.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def ask(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Begin `work(*arguments)`: a function of a module, with arguments that can be pickled."""
        self._asked += 1
        try:
            self._pipe.send((self._asked, work, arguments))
        except OSError as error:
            raise TwinLost("the second process has ended") from error

    def answer(self) -> Any:
        """What became of it: its result, or what it raised. Raises TwinLost where there is no answer to this."""
        try:
            if not self._pipe.poll(PATIENCE):
                raise TwinLost(f"no answer of the second process within {PATIENCE:.0f} s")
            asked, succeeded, result = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise TwinLost("the second process has ended") from error
        if asked != self._asked:
            raise TwinLost("the second process answers an earlier question")
        if succeeded is None:
            raise TwinLost("what the second process made can't be sent")
        if not succeeded:
            raise result
        return result

    def end(self) -> None:
        """Without waiting for anything under way."""
        self._process.kill()
        self._process.join(1)
        self._pipe.close()


def _serve(pipe: Connection, others: Connection) -> None:
    """The twin's life: until the other end is closed, which the death of its process does too."""
    # A group of its own: at its end a kernel waits for all processes of its group, and an interrupt goes to all of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.setpgid(0, 0)
    others.close()
    while True:
        try:
            asked, work, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = asked, True, work(*arguments)
        except Exception as error:
            answer = asked, False, error
        try:
            pickle.loads(pickle.dumps(answer))
        except Exception:  # an error or a result that doesn't survive the way
            answer = asked, None, None
        pipe.send(answer)


_twin: Twin | None = None
_without = not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2
"""Forking a process that has threads is only sound on Linux; on one core it would win nothing."""


def prepare() -> None:
    """Fork now, in a moment that has time for it, rather than at the first question."""
    global _twin, _without
    if _twin is not None or _without:
        return
    try:
        _twin = Twin()
    except (OSError, AssertionError):  # no process to be had, or this one is a child that may have none
        _without = True


def both(first: Callable[[], Any], work: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
    """`first()` here and `work(*arguments)` in the twin meanwhile; here as well where there can't be a twin.

    For one thread. The twin is this process as it was when it was forked: what is patched or reloaded later isn't
    patched there.
    """
    global _without
    prepare()
    if _twin is None:
        return first(), work(*arguments)
    made: list[Any] = []
    try:
        _twin.ask(work, *arguments)
        made.append(first())
        return made[0], _twin.answer()
    except TwinLost:
        _without = True
        _leave()
    except BaseException:  # failed or interrupted: an answer to this must not meet the next question
        _leave()
        raise
    return made[0] if made else first(), work(*arguments)


def _leave() -> None:
    global _twin
    gone, _twin = _twin, None
    if gone is not None:
        gone.end()


def _forget() -> None:
    """In any other fork of this process: the twin is its parent's."""
    global _twin
    _twin = None


# Before multiprocessing's own end, which asks the twin to end and waits for it however long that takes.
atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
