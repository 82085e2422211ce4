"""The commands: JSON that programs can rely on, exit codes, and one line for bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from radixflow.cli import main

SUMMARY = (
    "trace policy engine model workload requests completed aborted rounds stalled_rounds scheduled_tokens "
    "row_visits rows_per_round empty_slots avoidable_slots blocked_visits reuse_rate recomputed_tokens "
    "lower_bound_rounds latency first_selected_wait host_seconds wall_seconds"
).split()
ROUND = (
    "round selected blocked other unexamined stopped_by tokens_used rows_used avoidable_slots free_blocks "
    "preempted admitted released_by host_seconds"
).split()
EXPLANATION = "request arrival first_selected_round wait_rounds wait_seconds causes prefix text".split()


@pytest.fixture
def command(monkeypatch, capfd, tmp_path):
    """Run `radixflow ARGS` in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["radixflow", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        return ended.value.code or 0, said.out, said.err

    return run


@pytest.fixture(scope="module")
def figure1(tmp_path_factory):
    """Traces of Figure 1 under native scheduling and the traversal."""
    pytest.importorskip("vllm")
    import radixflow as rf

    folder = tmp_path_factory.mktemp("figure1")
    paths = [folder / f"{policy}.rft.jsonl.zst" for policy in ("radix", "radixflow")]
    for path in paths:
        rf.run("figure1", path.name.split(".")[0], trace=path)
    return paths


def test_run_prints_one_summary_and_nothing_else_on_stdout(command, tmp_path):
    pytest.importorskip("vllm")
    code, out, _ = command("run", "figure1", "--policy", "radix", "-o", "t.rft.jsonl", "--json")
    assert code == 0 and out.count("\n") == 1
    summary = json.loads(out)
    assert list(summary) == SUMMARY
    assert (summary["rounds"], summary["empty_slots"], summary["avoidable_slots"]) == (6, 9, 7)
    assert summary["latency"] is None, "figure1 has no clock"
    assert (tmp_path / "t.rft.jsonl").exists()


def test_run_with_several_policies_compares_them_and_their_output(command):
    pytest.importorskip("vllm")
    code, out, _ = command("run", "figure1", "--policy", "radix,radixflow", "-o", "runs", "--json")
    compared = json.loads(out)
    assert code == 0 and [s["rounds"] for s in compared["summaries"]] == [6, 4]
    assert compared["agreement"] == [{"same": 15, "requests": 15}]


def test_a_stalled_run_keeps_its_trace_and_ends_with_3_naming_the_culprit(command, tmp_path):
    pytest.importorskip("vllm")
    code, out, err = command("run", "d11-never-fits", "--policy", "radix", "-o", "t.rft.jsonl", "--json")
    assert code == 3 and json.loads(out)["stalled_rounds"] == 1
    assert "big" in err and "never_fits" in err and "17" in err
    assert command("check", "t.rft.jsonl")[0] == 0


def test_a_run_that_goes_in_circles_ends_with_3_naming_who_does(command, root):
    pytest.importorskip("vllm")
    code, _, err = command("run", root / "data" / "pairs" / "preempted-for-ever.workload.jsonl", "-o", "t.rft.jsonl")
    assert code == 3 and len(err.splitlines()) == 1 and "A is admitted and preempted again and again" in err


def test_an_interrupted_run_keeps_a_readable_trace_and_ends_with_130(command, monkeypatch, tmp_path):
    pytest.importorskip("vllm")
    from radixflow.engines.simulator import Simulator

    complete = Simulator._complete

    def interrupting(simulator, *args):
        if simulator._rounds == 2:
            raise KeyboardInterrupt
        complete(simulator, *args)

    monkeypatch.setattr(Simulator, "_complete", interrupting)
    code, _, err = command("run", "figure1", "--policy", "radix", "-o", "t.rft.jsonl")
    assert code == 130 and "t.rft.jsonl" in err
    monkeypatch.undo()
    from radixflow.trace import open_trace

    assert open_trace(tmp_path / "t.rft.jsonl").end.reason == "interrupted"


def test_an_interrupt_before_anything_ran_is_said_too(command, monkeypatch):
    import radixflow.workloads

    def interrupting(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(radixflow.workloads, "load_workload", interrupting)
    assert command("run", "figure1") == (130, "", "radixflow: interrupted\n")


def test_rounds_prints_one_record_a_line(command, figure1):
    code, out, _ = command("rounds", figure1[0], "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [record["round"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert all(list(record) == ROUND for record in records)
    first = records[0]
    assert first["selected"] == [["P1", 1024]]
    assert first["blocked"] == [{"id": "A1", "producer": "P1", "boundary": 1024, "groups": [1, 2, 3]}]
    assert first["stopped_by"] == {"id": "A1", "cause": "blocked"} and len(first["unexamined"]) == 13
    assert sum(record["tokens_used"] for record in records) == 12_970


def test_compare_prints_the_metrics_and_an_identity_that_adds_up(command, figure1):
    code, out, _ = command("compare", *figure1, "--json")
    cost = json.loads(out)["cost"][0]
    assert code == 0 and cost["holds"] and cost["rounds"] == [6, 4]
    code, out, _ = command("compare", *figure1)
    assert code == 0 and "empty slots" in out and "2 rounds fewer save" in out


def test_explain_names_the_culprit_and_its_causes_add_up(command, figure1):
    code, out, _ = command("explain", figure1[0], "D1", "--json")
    why = json.loads(out)
    assert code == 0 and list(why) == EXPLANATION
    assert why["wait_rounds"] == 1 and why["causes"][0]["cause"] == "unexamined"
    assert why["causes"][0]["culprit"] == "A1"
    for args in ((), ("--round", "1")):
        code, out, _ = command("explain", figure1[0], *args)
        assert code == 0 and "A1" in out


def test_check_prints_properties_and_findings(command, figure1):
    code, out, _ = command("check", figure1[0], "--json")
    report = json.loads(out)
    assert code == 0 and set(report) == {"properties", "findings"}
    assert {"same_round_dependency", "head_of_line"} <= {finding["code"] for finding in report["findings"]}
    assert all(set(entry) == {"name", "holds", "checked", "counterexample"} for entry in report["properties"])


def test_models_and_workloads_list_what_there_is(command):
    code, out, _ = command("models", "--json")
    listed = json.loads(out)
    assert code == 0 and "Qwen3.5-9B" in [profile["name"] for profile in listed["profiles"]]
    assert "tiny-nemotron-h" in listed["tiny"]
    code, out, _ = command("workloads", "--json")
    assert code == 0 and "figure1" in json.loads(out)["workloads"]


BAD = [
    (("run", "figure2"), "figure1"),
    (("run", "figure1", "--policy", "radixfow"), "radixflow"),
    (("run", "figure1", "--engine", "gpu"), "sim"),
    (("run", "figure1", "--model", "Qwen3.5-7B"), "Qwen3.5"),
    (("run", "figure1", "--retention-interval", "often"), "dense"),
    (("run", "figure1", "--with", "articles"), "KEY=VALUE"),
    (("run", "figure1", "--max-num-seqs", "0"), "max_num_seqs"),
    (("run", "figure1", "-o", "t.json"), ".rft.jsonl"),
    (("rounds", "missing.rft.jsonl"), "missing.rft.jsonl"),
    (("compare", "missing.rft.jsonl"), "missing.rft.jsonl"),
    (("explain", "missing.rft.jsonl", "A1"), "missing.rft.jsonl"),
    (("index", "one=tcp://127.0.0.1:99999", "--model", "m", "--block-size", "16"), "tcp://HOST:PORT"),
    (("paper", "--sensitivity", "rate", "--rate", "2", "-o", "p"), "--rate doesn't go with --sensitivity"),
    (("paper", "--scale", "nan", "-o", "p"), "scale is NaN; expected a number above 0"),
    (("paper", "--scale", "2", "-o", "p"), "scale is 2; expected a share above 0, at most 1"),
    (("fleet", "agents", "--replicas", "1000000"), "--replicas"),
    (("run", "agents", "--with", "agents=10000000000"), "agents x turns would be 80,000,000,000 requests"),
    (("dash", "--host", "203.0.113.9", "--no-browser"), "expected an address of this machine (--host)"),
    (("rnds", "t"), "rnds"),
    (("rounds", "--frist", "1"), "--frist"),
]


@pytest.mark.parametrize(("args", "said"), BAD, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_bad_input_is_one_line_and_exit_2(command, args, said):
    if args[0] == "run":
        pytest.importorskip("vllm")
    code, out, err = command(*args)
    assert code == 2 and out == ""
    assert err.count("\n") == 1 and said in err and "Traceback" not in err


def test_what_a_trace_lacks_is_said_and_nothing_checked_is_no_yes(command, figure1, tmp_path):
    cut = tmp_path / "cut.rft.jsonl.zst"
    cut.write_bytes(Path(figure1[0]).read_bytes()[:900])
    code, out, err = command("check", str(cut))
    assert code == 0 and "cut.rft.jsonl.zst has no end yet, or was cut off: it holds 0 rounds" in err
    assert "yes" not in out


def test_traces_are_named_by_policy_and_eviction(command):
    pytest.importorskip("vllm")
    code, out, _ = command("run", "figure1", "--policy", "radix", "--eviction", "rr", "--json")
    assert code == 0 and json.loads(out)["trace"].endswith("figure1-radix-rr.rft.jsonl.zst")


def test_a_workloads_name_is_no_path(command, tmp_path):
    pytest.importorskip("vllm")
    lines = (Path(__file__).parents[1] / "data" / "corpus" / "figure1.workload.jsonl").read_text().splitlines()
    header = json.loads(lines[0]) | {"name": "../sub/evil [/b]"}
    (tmp_path / "sub").mkdir()
    Path("mine.workload.jsonl").write_text("\n".join([json.dumps(header), *lines[1:]]))
    code, out, err = command("run", "mine.workload.jsonl", "--json")
    assert (code, err) == (0, "") and json.loads(out)["workload"] == "../sub/evil [/b]"
    assert [path.name for path in tmp_path.glob("**/*.zst")] == ["sub-evil-b-radixflow.rft.jsonl.zst"]
    code, out, err = command("run", "mine.workload.jsonl")
    assert code == 0 and "evil [/b] under radixflow" in out
    assert "sub-evil-b-radixflow.rft.jsonl.zst held an earlier run and holds this one now" in err


def test_an_unknown_request_and_an_unknown_round_are_bad_input(command, figure1):
    for words, said in ((["A9"], "A9"), (["a5"], "near: A5"), (["--round", "99"], "99")):
        code, _, err = command("explain", figure1[0], *words)
        assert code == 2 and said in err and err.count("\n") == 1


def test_help_names_every_command(command):
    code, out, _ = command("--help")
    assert code == 0
    for name in ("run", "rounds", "compare", "explain", "check", "dash", "models", "workloads", "demo"):
        assert name in out


def test_what_a_client_named_cannot_drive_the_terminal(capsys):
    from radixflow.printing import complain, show_text

    show_text("request \x1b[31mred\x07 and \u202eevil\nnext line")
    complain("no request \x1b]0;title\x07")
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err and "\x07" not in said.out + said.err
    assert "\\x1b[31mred" in said.out and "next line" in said.out


def test_rounds_outside_the_trace_are_bad_input(command, figure1):
    for args in (("--first", "99"), ("--first", "5", "--last", "2")):
        code, out, err = command("rounds", figure1[0], *args)
        assert code == 2 and out == "" and "1 to 6" in err


def test_dash_says_that_a_port_is_taken_before_it_announces_a_page(command, figure1):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = command("dash", figure1[0], "--no-browser", "--port", port)
    assert code == 2 and "dashboard on" not in out
    assert str(port) in err and err.count("\n") == 1


def test_without_a_terminal_long_work_says_now_and_then_how_far_it_is(monkeypatch, capfd):
    from radixflow import printing

    clock = iter([0.0, 29.0, 31.0, 45.0, 62.0])
    monkeypatch.setattr(printing.time, "monotonic", lambda: next(clock))
    with printing.working("reading a.rft.jsonl") as progress:
        for done in (1_000, 2_000, 3_000, 4_000):
            progress(done, 5_000)
    said = capfd.readouterr().err.splitlines()
    assert said == ["note: reading a.rft.jsonl: 2,000 of 5,000", "note: reading a.rft.jsonl: 4,000 of 5,000"]


def test_help_cuts_no_name_in_a_narrow_terminal_and_a_wrong_call_names_the_help(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = command("run", "--help")
    assert code == 0 and "…" not in out and max(map(len, out.splitlines())) <= 80
    for name in ("--max-num-batched-tokens", "--async-scheduling / --sync-scheduling", "radixflow+noadmit"):
        assert name in out
    code, out, _ = command()
    assert code == 0 and "..." not in out.replace("[ARGS]...", "") and "whatif" in out
    for wrong in (["explain"], ["explain", "t.rft.jsonl", "--request", "A1"], ["explane"]):
        code, _, err = command(*wrong)
        assert code == 2 and err.count("\n") == 1 and "--help` says what it takes" in err


def test_the_versions_are_said(command):
    code, out, _ = command("--version")
    assert code == 0 and out.startswith("radixflow ") and ", Python 3." in out


def test_a_property_is_said_in_a_sentence(command, figure1):
    code, out, _ = command("check", figure1[0])
    assert code == 0 and "no state is read before it was written" in out
    assert "docs/findings.md says what each finding means" in out


def test_what_runs_until_it_is_stopped_ends_well_by_an_interrupt(command, monkeypatch, root):
    import radixflow_dashboard

    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(radixflow_dashboard, "serve", stopped)
    trace = root / "data" / "traces" / "figure1-radix.rft.jsonl.zst"
    assert command("dash", trace, "--no-browser") == (0, "", "\nended\n")
