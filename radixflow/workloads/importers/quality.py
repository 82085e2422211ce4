"""QuALITY-style JSON Lines: an article a line, with questions of several candidate answers.

    {"article_id": "...", "article": "...", "questions": [{"q": "...", "options": ["...", ...]}]}

The released QuALITY files say `question` for `q` and have an article in more than one line; both
are understood. Other fields are not used.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from radixflow.workloads.arguments import one_of, whole
from radixflow.workloads.errors import WorkloadError, shown
from radixflow.workloads.four_branch import BUDGETS, LAYOUT, ORDERS, arrivals, branches, in_order
from radixflow.workloads.lines import read_objects
from radixflow.workloads.tokenizers import BYTES, Tokenizer
from radixflow.workloads.workload import Workload, WorkloadRequest


def import_quality(
    path: Path,
    tokenizer: Tokenizer = BYTES,
    *,
    articles: int | None = None,
    order: str = "reuse",
    rate: float | None = None,
    branch_spacing: float = 0.001,
    seed: int = 0,
) -> Workload:
    """Each question becomes one request a candidate answer (four in QuALITY), one token each.

    A request's text is article, question and answer, tokenised piece by piece: what two requests
    share as text they share as tokens, whatever the tokenizer. `articles` takes the first N lines;
    `order` is one of ORDERS (`four_branch`); `rate` is questions a second, a Poisson process of
    that `seed` (None: all there from the start, no clock).
    """
    if articles is not None:
        whole("articles", articles)
    one_of("order", order, ORDERS)
    names: list[str] = []
    asked: list[list[tuple[str, list[tuple[str, ...]]]]] = []
    index: dict[str, int] = {}
    for taken, (number, line) in enumerate(read_objects(path)):
        if taken == articles:
            break
        where = f"{path}:{number}"
        name = str(line.get("article_id") or f"line{number}")
        # An article's second line goes on with its questions; the same id on another text doesn't.
        article = _text(line, ("article",), where)
        while name in index and asked[index[name]][0][1][0][0] != _document(article):
            name += "+"
        if name not in index:
            index[name] = len(names)
            names.append(name)
            asked.append([])
        questions = asked[index[name]]
        for texts in _questions(line, article, where):
            questions.append((f"{name}.q{len(questions)}", texts))
    if not asked:
        raise WorkloadError(f"{path}: no articles; expected one a line")
    when = arrivals(rate, random.Random(seed))
    requests: list[WorkloadRequest] = []
    for _, (group, texts) in in_order(asked, order):
        contents = [{"text": pieces} for pieces in texts]
        requests += branches(group, contents, next(when), branch_spacing, cold=order == "cold")
    total = sum(map(len, asked))
    return Workload(
        name=path.name.removesuffix(".jsonl"),
        note=f"{len(names):,} articles, {total:,} questions, {order} order, read by {tokenizer.name}",
        source="QuALITY-style file",
        engine=BUDGETS,
        layout=LAYOUT,
        requests=requests,
        tokenizer=tokenizer,
    )


def _questions(line: dict[str, Any], article: str, where: str) -> list[list[tuple[str, ...]]]:
    """For each question the texts of its branches, in pieces."""
    questions = line.get("questions")
    if not isinstance(questions, list) or not questions:
        raise WorkloadError(f"{where}: questions is {shown(questions)}; expected a non-empty list")
    texts = []
    document = _document(article)
    for i, question in enumerate(questions):
        place = f"{where}: questions[{i}]"
        if not isinstance(question, dict):
            raise WorkloadError(f"{place} is {shown(question)}; expected an object with q and options")
        asked = _text(question, ("q", "question"), place)
        found = question.get("options")
        options = found if isinstance(found, list) else []
        if len(options) < 2 or not all(isinstance(option, str) and option for option in options):
            raise WorkloadError(f"{place}.options is {shown(found)}; expected a list of 2 or more answers")
        texts.append([(document, f"Question: {asked}\n", f"Answer: {option}") for option in options])
    return texts


def _document(article: str) -> str:
    return article + "\n\n"


def _text(values: dict[str, Any], keys: tuple[str, ...], where: str) -> str:
    value = next((values[key] for key in keys if key in values), None)
    if not isinstance(value, str) or not value:
        raise WorkloadError(f"{where}: {' or '.join(keys)} is {shown(value)}; expected a non-empty text")
    return value
