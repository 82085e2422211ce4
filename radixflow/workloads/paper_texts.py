"""Real QuALITY and RACE files as the paper's articles: their texts, and how long they are in tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from radixflow.workloads.errors import WorkloadError, shown
from radixflow.workloads.four_branch import BRANCHES
from radixflow.workloads.lines import read_objects
from radixflow.workloads.paper import CORPORA, Article, Question, generated_articles
from radixflow.workloads.tokenizers import Tokenizer, load_tokenizer


def articles_with_texts(
    quality: str | None, race: str | None, tokenizer: str | None, seed: int = 0, scale: float = 1.0
) -> list[Article]:
    """The articles of real files, generated ones for the file that isn't given.

    quality: JSON Lines as released (an article a line, `article`, `questions` with `options`). race: JSON
    Lines, or RACE's own folder of *.txt with one object each (`article`, `questions`, `options`). tokenizer:
    a Hugging Face tokenizer's folder, needed because lengths in bytes would be four times too long; "bytes"
    insists on them. As many articles and questions as the file has, times `scale`. Raises WorkloadError.
    """
    if tokenizer is None:
        raise WorkloadError(
            "texts without a tokenizer; expected --tokenizer FOLDER (or --tokenizer bytes, if you mean it)"
        )
    cut = load_tokenizer(tokenizer)
    made: list[Article] = []
    for corpus, path, read in zip(CORPORA, (quality, race), (_quality, _race), strict=True):
        if path is None:
            made += generated_articles(seed, scale, (corpus,))
            continue
        found = _articles(Path(path), corpus.name, read, cut)
        if not found:
            raise WorkloadError(f"{path}: no article with a question of {BRANCHES} answers; expected at least one")
        made += found[: max(1, round(len(found) * scale))]
    return made


Asked = list[tuple[str, list[str]]]
"""Questions with their options."""


def _articles(path: Path, name: str, read: Any, tokenizer: Tokenizer) -> list[Article]:
    by_text: dict[str, Asked] = {}
    for text, asked in read(path):
        by_text.setdefault(text, []).extend(asked)  # QuALITY has an article in more than one line
    found = []
    for a, (text, asked) in enumerate(by_text.items()):
        questions = []
        for question, options in asked:
            if len(options) == BRANCHES:
                texts = (text + "\n\n", f"Question: {question}\n", *(f"Answer: {option}" for option in options))
                lengths = [len(tokenizer.encode(piece)) for piece in texts[1:]]
                questions.append(Question(lengths[0], tuple(lengths[1:]), texts))
        if questions:
            found.append(Article(f"{name}{a}", len(tokenizer.encode(text + "\n\n")), tuple(questions)))
    return found


def _quality(path: Path) -> Iterator[tuple[str, Asked]]:
    for number, line in read_objects(path):
        where = f"{path}:{number}"
        questions = line.get("questions")
        if not isinstance(line.get("article"), str) or not isinstance(questions, list):
            raise WorkloadError(f"{where}: no article with questions; expected QuALITY's JSON Lines")
        asked = []
        for question in questions:
            options = question.get("options") if isinstance(question, dict) else None
            words = question.get("question", question.get("q")) if isinstance(question, dict) else None
            asked.append(_checked(words, options, where))
        yield line["article"], asked


def _race(path: Path) -> Iterator[tuple[str, Asked]]:
    for where, value in _race_objects(path):
        questions, options = value.get("questions"), value.get("options")
        fits = isinstance(questions, list) and isinstance(options, list) and len(questions) == len(options)
        if not isinstance(value.get("article"), str) or not fits:
            raise WorkloadError(
                f"{where}: no article with as many options as questions; expected RACE's article, questions, options"
            )
        yield value["article"], [_checked(q, o, where) for q, o in zip(questions, options, strict=True)]


def _race_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if not path.is_dir():
        yield from ((f"{path}:{number}", value) for number, value in read_objects(path))
        return
    files = sorted(path.rglob("*.txt"))
    if not files:
        raise WorkloadError(f"{path}: no *.txt in it; expected RACE's folder, or JSON Lines")
    for file in files:
        try:
            value = json.loads(file.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise WorkloadError(f"{file}: not JSON ({error}); expected RACE's one object a file") from None
        if not isinstance(value, dict):
            raise WorkloadError(f"{file}: {shown(value)}; expected RACE's one object a file")
        yield str(file), value


def _checked(question: Any, options: Any, where: str) -> tuple[str, list[str]]:
    fits = isinstance(options, list) and all(isinstance(option, str) and option for option in options)
    if not isinstance(question, str) or not question or not fits:
        raise WorkloadError(
            f"{where}: a question is {shown(question)} with options {shown(options)}; expected a text and texts"
        )
    return question, options
