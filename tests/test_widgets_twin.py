"""The second process does what it is told while the first works, and never gets in the way of a result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from radixflow.widgets import twin

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2, reason="there is no twin here"
)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Each test has a twin of its own."""
    monkeypatch.setattr(twin, "_twin", None)
    monkeypatch.setattr(twin, "_without", False)
    yield
    twin._leave()


def who(*arguments):
    return os.getpid(), arguments


def fail(message):
    raise ValueError(message)


def end_elsewhere(home):
    if os.getpid() != home:
        os._exit(3)
    return "done here"


def hang_elsewhere(home):
    if os.getpid() != home:
        time.sleep(600)
    return "done here"


def sleep(seconds):
    time.sleep(seconds)
    return "slept"


def test_both_are_done_at_the_same_time_in_two_processes():
    def first():
        began = time.monotonic()
        while not twin._twin._pipe.poll():  # the other one has answered before this one ends
            assert time.monotonic() - began < 30
            time.sleep(0.01)
        return os.getpid()

    here, (there, arguments) = twin.both(first, who, "a", 1)
    assert here == os.getpid() != there and arguments == ("a", 1)
    assert twin.both(os.getpid, who) == (here, (there, ()))  # the same one again


def test_what_fails_there_fails_here():
    with pytest.raises(ValueError, match="not this many"):
        twin.both(os.getpid, fail, "not this many")
    assert twin.both(lambda: 1, who)[1][0] != os.getpid()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next_one(error):
    def interrupted():
        raise error

    with pytest.raises(error):
        twin.both(interrupted, who, "old")
    assert twin.both(lambda: None, who, "new")[1][1] == ("new",)


def test_where_the_twin_has_gone_everything_is_done_here():
    twin.prepare()
    twin._twin._process.kill()
    twin._twin._process.join()
    assert twin.both(lambda: 1, who, "x") == (1, (os.getpid(), ("x",)))
    assert twin._twin is None and twin._without
    assert twin.both(lambda: 2, who) == (2, (os.getpid(), ()))


@pytest.mark.parametrize("work", [end_elsewhere, hang_elsewhere])
def test_what_the_twin_does_not_finish_is_done_here(monkeypatch, work):
    monkeypatch.setattr(twin, "PATIENCE", 0.5)
    twin.prepare()
    process = twin._twin._process
    assert twin.both(lambda: 1, work, os.getpid()) == (1, "done here")
    assert twin._twin is None and not process.is_alive()


def test_an_interrupt_of_the_notebook_leaves_the_twin_alone():
    twin.prepare()
    os.kill(twin._twin._process.pid, signal.SIGINT)  # as early as can be
    twin._twin.ask(sleep, 0.5)
    os.kill(twin._twin._process.pid, signal.SIGINT)
    assert twin._twin.answer() == "slept"


def test_it_ends_with_the_process_it_was_forked_from():
    code = """
import os, time
from radixflow.widgets import twin
twin.prepare()
print(twin._twin._process.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        assert os.path.exists(f"/proc/{pid}")
        process.kill()
    deadline = time.monotonic() + 20
    while _runs(pid):
        assert time.monotonic() < deadline, "the twin outlived its process"
        time.sleep(0.05)


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"  # ended, and nobody took notice here
    except OSError:
        return False


def test_another_fork_has_no_twin_of_its_parents():
    twin.prepare()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, b"none" if twin._twin is None else b"one")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 4) == b"none"
    os.close(reader), os.close(writer)


class Odd(ValueError):
    """Pickles, and can't be made again from what was pickled."""

    def __init__(self, what, why):
        super().__init__(what)


def raise_odd(home):
    if os.getpid() != home:
        raise Odd("a", "b")
    return "done here"


def unsendable(home):
    return (lambda: 1) if os.getpid() != home else "done here"


@pytest.mark.parametrize("work", [raise_odd, unsendable])
def test_what_cannot_be_sent_is_done_here_and_only_that(work):
    calls = []
    assert twin.both(lambda: calls.append(1) or 1, work, os.getpid()) == (1, "done here")
    assert calls == [1]  # what was done here isn't done again


def test_where_no_process_is_to_be_had_both_are_done_here(monkeypatch):
    def no_more():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", no_more)
    assert twin.both(lambda: 1, who) == (1, (os.getpid(), ()))


def test_an_earlier_answer_is_never_taken():
    twin.prepare()
    twin._twin.ask(who, "old")
    assert twin._twin._pipe.poll(20)
    twin._twin.ask(who, "new")
    with pytest.raises(twin.TwinLost, match="earlier"):
        twin._twin.answer()


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda *_: None"])
def test_its_process_ends_even_where_it_ignores_to_be_told(handler):
    code = f"import signal; signal.signal(signal.SIGTERM, {handler})\n"
    code += "from radixflow.widgets import twin; twin.prepare()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_kernel_with_a_twin_cleans_up_and_ends_at_once(tmp_path):
    """A kernel waits at its end for every process of its group, and is killed where that takes long."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()
    client.execute_interactive(
        "import tempfile; from radixflow.widgets import twin; twin.prepare()\n"
        f"folder = tempfile.TemporaryDirectory(dir={str(tmp_path)!r})",
        timeout=60,
    )
    assert len(list(tmp_path.iterdir())) == 1
    client.stop_channels()
    manager.shutdown_kernel()
    assert not list(tmp_path.iterdir()), "the kernel was killed before it could clean up"
