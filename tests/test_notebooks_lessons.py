"""Every lesson runs from top to bottom, says what it said when it was committed, and checks its exercise.

One kernel runs them all, each in an empty namespace, since loading vLLM takes longer than most lessons.
"""

from __future__ import annotations

import importlib.util
import re
import time
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
LESSONS = sorted(FOLDER.glob("*.ipynb"))
NAMES = [path.stem for path in LESSONS]

EXERCISES: dict[str, tuple[str, tuple[str, ...]]] = {
    "01": ("unavoidable, in_round = 2, 6", ("unavoidable, in_round = 7, 1", "unavoidable, in_round = 2, 5")),
    "02": ("block = 544", ("block = 530", "block = 512", "block = 560")),
    "03": ("h_hat, h = 896, 0", ("h_hat, h = 1000, 0", "h_hat, h = 896, 896")),
    "04": (
        "queue = [(d + str(k), d, 640) for d in 'abcd' for k in (1, 2)]",
        ("queue = [('a1', 'a', 640), ('a2', 'a', 640)]", "queue = [(str(k), 'a', 64) for k in range(9)]"),
    ),
    "05": ("ends_at_ms, released_by = 3, 'rows'", ("ends_at_ms, released_by = 5, 'deadline'",)),
    "06": ("number = 17", ("number = 16", "number = 30")),
    "07": (
        "saved_seconds, eaten_percent = 25, 75",
        ("saved_seconds, eaten_percent = 100, 75", "saved_seconds, eaten_percent = 25, 25"),
    ),
    "08": ("together_percent = 33", ("together_percent = 35", "together_percent = 27")),
    "09": ("culprit = 'draft_backoff'", ("culprit = 'state_evicted'", "culprit = 'state_missing_at_match'")),
    "10": ("rounds_radix = rounds_radixflow = 4", ("rounds_radix, rounds_radixflow = 6, 4",)),
    "11": ("best_percent = {reusable}", ("best_percent = 100", "best_percent = 0")),
    "12": (
        "recomputed_percent, one_in_a_hundred = 25, True",
        ("recomputed_percent, one_in_a_hundred = 25, False", "recomputed_percent, one_in_a_hundred = 18.75, True"),
    ),
}
"""Of each lesson, an answer that its check must accept, and some that it must refuse."""

PICTURES = {"01": 4, "02": 2, "03": 4, "04": 3, "05": 4, "06": 3, "07": 2, "08": 1, "09": 3, "10": 1, "11": 3, "12": 3}
"""How many pictures a lesson must show at least."""

SAID = {
    "01": ["A1 (1,644 prompt tokens) waited 1 round", "- `head_of_line` (warning): In", "Scheduled tokens"],
    "02": ["state 2,146,304 bytes", "528 tokens a block", "skips 1,056 of its 1,460 tokens"],
    "03": ["640", "1024", "round 3: runs ['A', 'B'], waits ['C']"],
    "04": [
        "prefix-stop: 6 rounds, the same as vLLM's: True",
        "state-ready: 4 rounds, the same as vLLM's: True",
        "contains_native                              0            0",
        "more in 4 (seeds [139, 170, 201, 207])",
    ],
    "04.zh": [
        "prefix-stop：6 轮，与 vLLM 完全一致：True",
        "contains_native                         0     0",
        "变多 4 个（种子 [139, 170, 201, 207]）",
    ],
    "05": ["radix+flex", "tokens", "work"],
    "06": ["- `starvation` (warning): big waited 12 rounds", "mixed"],
    "07": ["'holds': True", "25 → 18"],
    "08": [
        "Qwen3-8B: every batch of radixflow equals that of radix+flex: True",
        "Qwen3.5-9B: every batch of radixflow equals that of radix+flex: False",
    ],
    "09": ["- `budget_below_block` (warning)", "`checkpoint_in_unique_tokens` (warning)", "the run stalled"],
    "10": ["6 rounds, every batch equal to the simulated one: True", "'same': 15, 'requests': 15"],
    "11": [
        "6 prompts, read by bytes",
        "32 requests of a Mooncake trace",
        "- `same_round_dependency` (warning)",
        "blocked visits",
    ],
    "12": [
        "0   a2.t1    171      2304     256    2048  whole   a3.t3",
        "0   a2.t1    171      2304    1856     448  partial    a9.t1",
        "whole misses     36      0",
        "m >= n (n_a = 2.0, m = 14.6, n = 12): all trajectories fit, so lru and rr are the same.",
        "m <= n_a (n_a = 6.0, m = 3.5, n = 12): not even the active trajectories fit, so lru and rr are the same.",
    ],
}
"""What a lesson must say, in the committed outputs as in new ones."""


def load_execute():
    spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


execute = load_execute()


@pytest.fixture(scope="module")
def kernel():
    with execute.Kernel() as kernel:
        yield kernel


def number(path: Path) -> str:
    return path.name[:2]


def said(notebook) -> str:
    return "\n".join(text for cell in execute.texts(notebook) for text in cell)


def tagged(notebook, tag: str):
    (cell,) = (cell for cell in notebook.cells if tag in cell.metadata.get("tags", ()))
    return cell


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", LESSONS, ids=NAMES)
def test_a_lesson_runs_says_what_it_said_and_checks_its_exercise(path, kernel):
    committed = nbformat.read(path, as_version=4)
    began = time.monotonic()
    made = execute.cleaned(kernel.run(nbformat.read(path, as_version=4)))
    print(f"{path.name}: {time.monotonic() - began:.1f} s")

    assert execute.texts(made) == execute.texts(committed), "python notebooks/execute.py --write refreshes it"
    assert said(made).count("<picture>") >= PICTURES[number(path)]
    assert not [text for cell in execute.texts(made) for text in cell if text.startswith("stderr")]
    for words in SAID.get(number(path) + path.stem[-3:]) or SAID[number(path)]:
        assert words in said(made), words

    check = tagged(made, "check").source
    right, wrong = EXERCISES[number(path)]
    if "{reusable}" in right:
        right = right.format(reusable=reusable_percent(kernel))
    for answer in wrong:
        with pytest.raises(CellExecutionError, match="AssertionError"):
            kernel.run_more(cells(answer, check))
    accepted = kernel.run_more(cells(right, check))
    assert "No answer" not in said(accepted) and "stdout: " in said(accepted)


def cells(*sources: str):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def reusable_percent(kernel) -> str:
    """The answer to lesson 11, worked out on tokens rather than on blocks."""
    source = """
    from radixflow.workloads import token_ids
    tried, good, everything = set(), 0, 0
    for request in workload.requests:
        tokens = tuple(token_ids(request))
        everything += len(tokens)
        prefixes = [tokens[:end] for end in range(512, len(tokens) + 1, 512)]
        good += max((len(prefix) for prefix in prefixes if prefix in tried), default=0)
        tried.update(prefixes)
    print(100 * good / everything)
    """
    made = kernel.run_more(cells("\n".join(line[4:] for line in source.splitlines())))
    return said(made).removeprefix("stdout: ").strip()


# --- What is committed, without running it.


@pytest.mark.parametrize("path", LESSONS, ids=NAMES)
def test_a_lesson_begins_with_a_question_and_ends_with_an_exercise_left_to_the_reader(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    first = notebook.cells[0].source
    assert first.startswith(f"# {number(path)}") and ("**Question.**" in first or "**问题**" in first)
    answer = tagged(notebook, "answer")
    assert "None" in answer.source and not answer.outputs
    check = tagged(notebook, "check")
    assert "assert" in check.source
    assert notebook.cells.index(check) == notebook.cells.index(answer) + 1
    assert notebook.cells[-1].cell_type == "markdown", "it ends with its sources"


@pytest.mark.parametrize("path", LESSONS, ids=NAMES)
def test_committed_outputs_render_anywhere_and_carry_nothing_of_the_machine(path):
    notebook = nbformat.read(path, as_version=4)
    assert path.stat().st_size < 400_000
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        assert cell.execution_count is None
        for output in cell.outputs:
            assert output.output_type in ("stream", "display_data") and output.get("name") != "stderr"
            assert set(output.get("data", ())) <= {"image/png", "text/html", "text/plain"}
    text = said(notebook) + "".join(cell.source for cell in notebook.cells)
    assert not re.search(r"/(?:work|tmp|home|root|opt|Users)/", text)


@pytest.mark.parametrize("path", LESSONS, ids=NAMES)
def test_links_of_a_lesson_lead_somewhere(path):
    text = "".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("https://"):
            assert (FOLDER / target).is_file(), target


def test_each_lesson_is_on_the_readers_list_and_the_teachers_page():
    readme = (FOLDER / "README.md").read_text()
    teaching = (FOLDER.parent / "docs" / "teaching.md").read_text()
    for path in LESSONS:
        assert f"]({path.name})" in readme, path.name
        assert f"](../notebooks/{path.name})" in teaching, path.name


def test_a_failing_cell_is_seen(kernel):
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        kernel.run(cells("1 / 0"))


def test_a_lesson_sees_nothing_of_the_one_before(kernel):
    kernel.run(cells("left = 1"))
    with pytest.raises(CellExecutionError, match="NameError"):
        kernel.run(cells("left"))
