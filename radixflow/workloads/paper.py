"""The paper's streams (RadixFlow, arXiv 2610.18143): 1,551 questions with four branches of one token each.

    quality3  |====================|q7|o0     1,034 questions on 62 QuALITY articles and
              |                    |  |o1     517 on 128 RACE-M articles, in three streams:
              |                    |  |o2     cold   questions share nothing, only their own branches do
              |                    |  |o3     reuse  questions on one document recur
              |                    |q8|o0     mixed  documents interleaved, some questions as in cold

All three ask the same questions in the same shuffled order at the same times: they differ in who shares.

The texts can't be shipped. `generated_articles` draws articles with the published lengths; real files give
their own (`radixflow.workloads.paper_texts`). docs/paper.md lists what is published and what is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from radixflow.workloads.arguments import number, one_of, part_of_one, whole
from radixflow.workloads.engine_options import EngineOptions
from radixflow.workloads.errors import WorkloadError
from radixflow.workloads.four_branch import BRANCHES
from radixflow.workloads.workload import Workload, WorkloadRequest

STREAMS = ("cold", "reuse", "mixed")
ORDERS = (1, 2)
"""Two seeded shuffles of all questions."""
FRESH = 0.4
"""Share of the mixed stream's questions that share nothing. Not published: it puts Radix's reuse where the
paper has it on the two models whose pools hold everything (docs/paper.md). Fitted to no other policy."""
RATE = 5.0
"""Questions a second; 1.5 for Nemotron."""
BRANCH_SPACING = 0.001
"""Seconds between a question's branches. Not published: an assumption, with its own sensitivity plot."""


LAYOUT = EngineOptions(block_size=528, num_blocks=2672, state_groups=3, max_num_seqs=64, max_num_batched_tokens=8192)
"""Qwen3.5-9B's; a model that the command line names brings its own."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A data set's published shape."""

    name: str
    articles: int
    questions: int
    at: tuple[float, ...]
    """Shares of the articles, 0 to 1, and beside them the tokens that so many are no longer than."""
    tokens: tuple[int, ...]
    question_tokens: int
    """Mean."""
    option_tokens: int
    """Mean."""


QUALITY = Corpus(
    name="quality",
    articles=62,
    questions=1034,
    # Median, p95 and maximum are published; the two below the median put the mean at its 5,755.
    at=(0.0, 0.25, 0.5, 0.95, 1.0),
    tokens=(2500, 3595, 6493, 8088, 9765),
    question_tokens=14,
    option_tokens=12,
)
RACE_M = Corpus(
    name="race",
    articles=128,
    questions=517,
    # p95 and maximum are published, the mean of 249 fixes the rest: close to a normal distribution.
    at=(0.0, 0.1, 0.5, 0.9, 0.95, 1.0),
    tokens=(65, 133, 249, 365, 402, 514),
    question_tokens=11,
    option_tokens=5,
)
CORPORA = (QUALITY, RACE_M)


@dataclass(frozen=True, slots=True)
class Question:
    """Lengths in tokens; `texts` where real files gave them: article, question, options."""

    tokens: int
    options: tuple[int, ...]
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Article:
    name: str
    tokens: int
    questions: tuple[Question, ...]


def generated_articles(seed: int = 0, scale: float = 1.0, corpora: Sequence[Corpus] = CORPORA) -> list[Article]:
    """Articles with the published numbers and lengths; `scale` keeps that share of them.

    Lengths are the published distribution's quantiles, one from each of n equal strata, so that every seed
    has nearly the published moments. A question's and an option's length is 1 + a negative binomial number
    with the published mean: only the mean is published.
    """
    part_of_one("scale", scale)
    made: list[Article] = []
    for corpus in corpora:
        rng = np.random.default_rng([seed, corpus.articles])
        n = max(1, round(corpus.articles * scale))
        lengths = np.rint(np.interp(_strata(n, rng), corpus.at, corpus.tokens)).astype(int)
        rng.shuffle(lengths)
        share = corpus.questions / corpus.articles
        counts = np.diff(np.rint(np.arange(n + 1) * share).astype(int))
        rng.shuffle(counts)
        asked = _lengths(corpus.question_tokens, int(counts.sum()), rng)
        options = _lengths(corpus.option_tokens, int(counts.sum()) * BRANCHES, rng).reshape(-1, BRANCHES)
        begin = 0
        for a, (length, count) in enumerate(zip(lengths.tolist(), counts.tolist(), strict=True)):
            rows = range(begin, begin + count)
            questions = tuple(Question(int(asked[k]), tuple(options[k].tolist())) for k in rows)
            made.append(Article(f"{corpus.name}{a}", length, questions))
            begin += count
    return made


def _strata(n: int, rng: np.random.Generator) -> np.ndarray:
    """n shares, one from each of n equal parts of 0 to 1; shape (n,)."""
    return (np.arange(n) + rng.random(n)) / n


def _lengths(mean: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """n lengths of at least 1 and the given mean, with a standard deviation of about half of it; shape (n,)."""
    successes = 8
    return 1 + rng.negative_binomial(successes, successes / (successes + mean - 1), n)


def paper(
    *,
    stream: str = "reuse",
    order: int = 1,
    seed: int = 0,
    rate: float = RATE,
    branch_spacing: float = BRANCH_SPACING,
    scale: float = 1.0,
    shared: float = 1.0,
    questions: int | None = None,
    output_tokens: int = 1,
    quality: str | None = None,
    race: str | None = None,
    tokenizer: str | None = None,
) -> Workload:
    """One stream of the paper in one of its two orders: 1,551 questions, 6,204 requests.

    rate: questions a second, a Poisson process. scale: the share of articles (and so of questions) to keep.
    shared: the share of each article that its requests share; the rest becomes each request's own, so that
    lengths stay. questions: keep the first so many. output_tokens: of each branch; the paper has one.
    quality, race, tokenizer: real files in place of generated lengths, and what cuts them into tokens
    (`radixflow.workloads.paper_texts`). Raises WorkloadError for an argument out of range.
    """
    if quality is None and race is None:
        articles = generated_articles(seed, scale)
    else:
        from radixflow.workloads.paper_texts import articles_with_texts

        articles = articles_with_texts(quality, race, tokenizer, seed, scale)
    return paper_stream(
        articles,
        stream=stream,
        order=order,
        seed=seed,
        rate=rate,
        branch_spacing=branch_spacing,
        shared=shared,
        questions=questions,
        output_tokens=output_tokens,
    )


def paper_stream(
    articles: Sequence[Article],
    *,
    stream: str,
    order: int = 1,
    seed: int = 0,
    rate: float = RATE,
    branch_spacing: float = BRANCH_SPACING,
    shared: float = 1.0,
    questions: int | None = None,
    output_tokens: int = 1,
) -> Workload:
    """The same out of articles that are there already: one list serves all streams and orders."""
    one_of("stream", stream, STREAMS)
    whole("order", order)
    number("rate", rate)
    number("branch_spacing", branch_spacing, or_equal=True)
    whole("output_tokens", output_tokens)
    if questions is not None:
        whole("questions", questions)
    if not 0 <= number("shared", shared, or_equal=True) <= 1:
        raise WorkloadError(f"shared is {shared:g}; expected a share, 0 to 1")
    rng = np.random.default_rng([seed, order])
    listed = [(article, k) for article in articles for k in range(len(article.questions))]
    turns = [listed[k] for k in rng.permutation(len(listed))]
    when = np.concatenate(([0.0], np.cumsum(rng.exponential(1 / rate, len(turns) - 1))))
    alone = rng.random(len(turns)) < {"cold": 1.0, "reuse": 0.0, "mixed": FRESH}[stream]
    requests: list[WorkloadRequest] = []
    asked = list(zip(turns, when.tolist(), alone.tolist(), strict=True))[:questions]
    for (article, k), begin, cold in asked:
        requests += _branches(article, k, begin, branch_spacing, shared, cold, output_tokens)
    requests.sort(key=lambda request: request.arrival or 0.0)
    return Workload(
        name="paper",
        note=f"the paper's {stream} stream, order {order}: {len(asked):,} questions of four branches",
        source="RadixFlow, arXiv 2610.18143 (shapes)",
        layout=LAYOUT,
        requests=requests,
    )


def _branches(
    article: Article, k: int, begin: float, spacing: float, shared: float, cold: bool, output_tokens: int
) -> list[WorkloadRequest]:
    question, group = article.questions[k], f"{article.name}.q{k}"
    common = round(article.tokens * shared)
    made = []
    for b, option in enumerate(question.options):
        own = f"{group}.o{b}"
        prompt = [(article.name, common)] if common else []
        if common < article.tokens:  # the sensitivity to the shared part: same length, less in common
            prompt.append((f"{own}.article", article.tokens - common))
        prompt += [(group, question.tokens), (own, option)]
        made.append(
            WorkloadRequest(
                id=f"{group}.b{b}",
                prompt=prompt,
                arrival=round(begin + b * spacing, 6),
                output_tokens=output_tokens,
                group=group,
                salt=group if cold else None,
            )
        )
    return made
