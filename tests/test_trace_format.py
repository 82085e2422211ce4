"""The page, the JSON Schema and the code say the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest
from trace_records import header, small_run, written

from radixflow.trace import json_schema, open_trace, schema

PAGE = (Path(__file__).parent.parent / "docs" / "trace-format.md").read_text()
STRUCTS = [
    value
    for value in vars(schema).values()
    if isinstance(value, type)
    and issubclass(value, msgspec.Struct)
    and value not in (msgspec.Struct, schema.Record)
]
SECTIONS = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S))


def section(struct: type) -> str:
    tag = struct.__struct_config__.tag
    return SECTIONS[f"`{tag}`" if tag else struct.__name__.lower()]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_the_page_documents_every_field_and_no_other(struct):
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+) \|$", section(struct), re.M)
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    assert [name for name, *_ in rows] == list(fields)
    for name, _, default, meaning in rows:
        field = fields[name]
        assert (default == "required") == field.required, name
        if isinstance(field.default, int | str):
            assert default.strip("`") == str(field.default).lower(), name
        assert len(meaning) > 3


def test_the_page_names_every_value_the_schema_names():
    docstrings = " ".join(re.findall(r'"""(.*?)"""', Path(schema.__file__).read_text(), re.S))
    for word in re.findall(r"`([a-z_]+)`", docstrings):
        assert word in PAGE, word


def test_the_schema_file_is_what_the_code_generates():
    assert json_schema.FILE.read_text() == json_schema.text(), "run python -m radixflow.trace.json_schema"


def test_every_line_of_a_trace_is_valid(tmp_path):
    validator = jsonschema.Draft202012Validator(json.loads(json_schema.FILE.read_text()))
    kinds = set()
    for line in written(tmp_path / "a.rft.jsonl", small_run(5)).read_text().splitlines():
        record = json.loads(line)
        validator.validate(record)
        kinds.add(record["kind"])
    assert kinds == {struct.__struct_config__.tag for struct in STRUCTS if struct.__struct_config__.tag}
    for wrong in (
        {"kind": "round", "n": "1"},
        {"kind": "step", "n": 1},
        {"kind": "cache", "n": 1, "published": [[1, 2]]},
    ):
        assert not validator.is_valid(wrong)


def test_the_worked_example_is_a_trace_and_says_what_the_page_says(tmp_path):
    path = tmp_path / "example.rft.jsonl"
    path.write_text(re.search(r"```jsonl\n(.*?)```", PAGE, re.S)[1])
    validator = jsonschema.Draft202012Validator(json_schema.json_schema())
    for line in path.read_text().splitlines():
        validator.validate(json.loads(line))
    trace = open_trace(path)
    assert trace.complete and trace.num_rounds == 2
    first = trace.round(1)
    assert [trace.ids[i] for i in first.queue] == ["A", "B", "C"] and first.unexamined == [2]
    assert first.host_ns == 6_400_000
    before, after = trace.tree(1), trace.tree(2)
    assert (before.ready(1), after.ready(1), before.identity(1)) == (0, 640, 640)
    assert before.state_at(1, 1, 640) == "in_flight" and before.state_at(1, 0, 640) == "published"


def test_the_header_round_trips(tmp_path):
    assert open_trace(written(tmp_path / "a.rft.jsonl.zst", [], header(model="m"))).header == header(
        model="m"
    )
