"""Where nothing runs, the lessons still show: converted to HTML, on a code host, in Chinese."""

from __future__ import annotations

import io
import token
import tokenize
from pathlib import Path

import nbformat
import pytest

import radixflow as rf

ROOT = Path(__file__).resolve().parent.parent
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TRANSLATED = sorted((ROOT / "notebooks").glob("*.zh.ipynb"))


def html(notebook) -> str:
    from nbconvert import HTMLExporter

    body, _ = HTMLExporter(embed_images=False).from_notebook_node(notebook)
    return body


def test_a_lesson_converted_to_html_shows_its_pictures(tmp_path):
    for path in LESSONS[:2]:
        notebook = nbformat.read(path, as_version=4)
        pictures = sum(
            "image/png" in output.get("data", ()) for cell in notebook.cells for output in cell.get("outputs", ())
        )
        body = html(notebook)
        assert pictures >= 3 and body.count('src="data:image/png;base64,') == pictures


@pytest.mark.parametrize("name", ["player", "knobs"])
def test_a_saved_widget_without_its_state_converts_to_the_picture_beside_it(name, request):
    if name == "player":
        widget = rf.player(rf.open_trace(ROOT / "data" / "traces" / "figure1-radix.rft.jsonl.zst"))
    else:
        pytest.importorskip("vllm")
        widget = rf.knobs("figure1")
    data, metadata = widget._repr_mimebundle_()
    from base64 import b64encode

    data = {**data, "image/png": b64encode(data["image/png"]).decode()}  # as the kernel sends it
    output = nbformat.v4.new_output("display_data", data=data, metadata=metadata)
    cell = nbformat.v4.new_code_cell("widget", outputs=[output])
    body = html(nbformat.v4.new_notebook(cells=[cell]))
    assert body.count('src="data:image/png;base64,') == 1
    assert "Loading widget" not in body and "Player(" not in body


def code_of(source: str) -> list[str]:
    """A cell's program without what people read: strings and comments."""
    skipped = {token.STRING, token.COMMENT, token.NL, tokenize.ENCODING} | {
        kind for name, kind in vars(token).items() if name.startswith("FSTRING")
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [one.string for one in tokens if one.type not in skipped and one.string.strip()]


@pytest.mark.parametrize("path", TRANSLATED, ids=[path.stem for path in TRANSLATED])
def test_a_translation_runs_the_same_program_cell_for_cell(path):
    ours = nbformat.read(path, as_version=4).cells
    original = nbformat.read(path.with_name(path.name.replace(".zh", "")), as_version=4).cells
    assert [cell.cell_type for cell in ours] == [cell.cell_type for cell in original]
    for mine, theirs in zip(ours, original, strict=True):
        if mine.cell_type == "code":
            assert code_of(mine.source) == code_of(theirs.source)
        else:
            assert any("一" <= sign <= "鿿" for sign in mine.source)


def test_01_and_04_are_there_in_chinese():
    assert [path.name[:2] for path in TRANSLATED] == ["01", "04"]
