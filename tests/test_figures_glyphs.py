"""Ids in any script on paper: fonts that have their letters are asked, and what no font has is said once."""

from __future__ import annotations

import logging
import warnings

import pytest

from radixflow.figures import glyphs
from radixflow.figures.figure import Figure, styled
from radixflow.figures.lettering import fit, fit_id, width_of

ODD = "\x07a\x1b[31m 👋"


def figure(words: str) -> Figure:
    return Figure(lambda page, theme: page.text(0.1, 0.5, words, weight="bold"), lambda inches: 0.5, "a test")


@pytest.fixture
def installed(monkeypatch):
    """Fonts that are said to be installed."""

    def install(*names: str) -> None:
        monkeypatch.setattr("matplotlib.font_manager.get_font_names", lambda: [*names, "DejaVu Sans"])
        glyphs.fallbacks.cache_clear()

    yield install
    monkeypatch.undo()
    glyphs.fallbacks.cache_clear()


def test_a_figure_with_letters_that_no_font_has_warns_once_and_control_characters_are_spaces(installed):
    installed()
    with pytest.warns(UserWarning) as said:
        svg = figure(f"{ODD} {ODD} 请").render("svg", source_line=False)
    assert [str(one.message) for one in said] == [glyphs.lacking({"👋", "请"})]
    assert b"\x07" not in svg and b"\x1b" not in svg
    with styled():
        assert width_of("a\x07b") == width_of("a b")
        assert fit("a\x07b", 1.0) == "a\x07b", "what is measured is not changed, what is drawn is"


def test_who_asks_hears_of_all_figures_together_and_nobody_is_warned(installed):
    installed()
    with warnings.catch_warnings(), glyphs.letters_without_glyph() as lacked:
        warnings.simplefilter("error")
        for words in ("👋", "plain", "请"):
            figure(words).render("png")
    assert lacked == {"👋", "请"}


def test_the_first_installed_font_of_each_script_is_asked_after_the_styles_own(installed):
    installed("Noto Sans CJK SC", "WenQuanYi Zen Hei", "Noto Emoji", "Comic Sans MS")
    import matplotlib

    with styled():
        assert matplotlib.rcParams["font.family"] == ["DejaVu Sans", "WenQuanYi Zen Hei", "Noto Emoji"]
    assert matplotlib.rcParams["font.family"] != ["DejaVu Sans", "WenQuanYi Zen Hei", "Noto Emoji"]


def test_other_warnings_and_other_words_of_matplotlibs_log_get_through(caplog):
    log = logging.getLogger("matplotlib.font_manager")
    with pytest.warns(RuntimeWarning, match="something else"), glyphs.one_warning():
        warnings.warn("something else", RuntimeWarning, stacklevel=1)
        log.warning("findfont: Failed to find font weight bold for X, now using 500.")
        log.warning("findfont: Font family 'X' not found.")
    log.warning("findfont: Failed to find font weight bold for Y, now using 500.")
    assert [record.getMessage().split(": ")[1][:11] for record in caplog.records] == ["Font family", "Failed to f"]


def test_an_id_that_is_too_wide_keeps_both_ends_and_what_fits_is_whole(installed):
    installed()
    ids = [f"d{k}.q0.b{k}" for k in range(4)]
    with styled():
        for wide in (0.1, 0.2, 0.3, 0.35):
            cut = [fit_id(id, wide, bold=True) for id in ids]
            assert all(width_of(text, bold=True) <= wide for text in cut)
            assert len(set(cut)) == len(ids) or wide == 0.1
        head, tail = fit_id("chatcmpl-3f1c9ae2", 0.6).split("…")
        assert "chatcmpl-3f1c9ae2".startswith(head) and "chatcmpl-3f1c9ae2".endswith(tail)
        assert 0 < len(head) <= len(tail)
        assert fit_id("A1", 0.6) == "A1" and fit_id("A1", 0.0) == ""
        assert fit_id("x" * 10_000, 0.5).count("…") == 1
