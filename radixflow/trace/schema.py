"""The records of a trace, one `msgspec.Struct` a kind, in the order in which they appear.

A trace is JSON Lines: one record a line, told apart by its `kind`. `docs/trace-format.md` is the
normative page; a test holds it, the JSON Schema and this module against each other.

Requests are numbered in the order in which the scheduler first saw them. Rounds name a request by
that number (`i`), never by its id, so that a row visit costs a few bytes. Times are integer
nanoseconds on the run's monotonic clock (virtual in the simulator, where it starts at 0).
"""

from __future__ import annotations

import msgspec

SCHEMA = "1.0"
"""MAJOR.MINOR. A reader accepts any MINOR of its own MAJOR and refuses a newer MAJOR."""


class Record(msgspec.Struct, tag_field="kind", omit_defaults=True):
    """One line of a trace."""


class Group(msgspec.Struct, omit_defaults=True):
    """One KV cache group (vLLM's `KVCacheGroupSpec`)."""

    index: int
    kind: str
    """`full_attention`, `mamba`, `sliding_window`, ...: vLLM's `get_kv_cache_spec_kind`."""
    components: list[str]
    """What a prefix needs of this group: `["kv"]`, or `["rec", "conv"]` for recurrent layers."""
    block_size: int
    """Tokens a block."""
    layers: int = 0
    """Number of layers in the group; 0 where unknown."""


class Config(msgspec.Struct, omit_defaults=True):
    """Engine and cache configuration, as the scheduler saw it."""

    max_num_seqs: int
    """The row budget S."""
    max_num_batched_tokens: int
    """The token budget T of a round (vLLM's `max_num_scheduled_tokens` where that is smaller)."""
    block_size: int
    """The scheduler's block size: the granularity of prefix hits, in tokens."""
    hash_block_size: int
    num_blocks: int
    """Blocks in the pool, the null block included."""
    groups: list[Group]
    retention_interval: int | None = None
    """Tokens between retained states; 0 = sparse, None = dense (every boundary)."""
    scheduling_policy: str = "fcfs"
    async_scheduling: bool = False
    max_model_len: int = 0
    long_prefill_token_threshold: int = 0
    watermark_blocks: int = 0
    prefix_caching: bool = True
    spec_tokens: int = 0
    kv_cache_events: bool = False
    """Whether vLLM publishes prefix-cache events in this run."""
    admission_deadline_ns: int | None = None
    """How long admission may hold an arrival; None where the policy has no admission."""
    probe: int = 1
    """The slots of every n-th round were probed; 0 = probe off."""
    eviction: str = "lru"
    """`lru` (vLLM's own) or `rr` (rotating tails): which free blocks give up their prefixes first."""


class Clock(msgspec.Struct, omit_defaults=True):
    """Ties the trace's monotonic times to wall time: wall = wall_ns + (t - monotonic_ns)."""

    wall_ns: int
    monotonic_ns: int
    virtual: bool = False
    """True in the simulator: times are modelled, not measured."""
    arrivals: bool = True
    """False where the workload has no clock: latencies mean nothing and are reported as null."""


class Header(Record, tag="trace"):
    """First record of every file."""

    schema: str
    id: str
    """Random, 16 hex digits; the same in all parts and engine cores of a run."""
    policy: str
    engine: str
    """`sim` or `vllm`."""
    config: Config
    clock: Clock
    versions: dict[str, str]
    """Of `radixflow`, `vllm` and `python`."""
    model: str | None = None
    workload: str | None = None
    part: int = 0
    """Number of this file where a long trace was rotated."""
    engine_index: int = 0
    """Data-parallel rank of the engine core."""
    path_granularity: int = 1
    """Tokens: paths are exact to this many tokens."""
    tokens_included: bool = False
    """True only where the user opted in to token ids (`--include-tokens`)."""


class Request(Record, tag="request"):
    """A request reached the scheduler."""

    i: int
    id: str
    t: int
    """When the scheduler got it (`add_request`), or began to hold it."""
    prompt: int
    """Prompt tokens."""
    path: list[tuple[str, int]] = []
    """The prompt's way down the radix tree of the run's prompts: `[[stream, n], ...]`, the first n
    tokens of each stream in turn. Two paths share a prefix exactly as far as they name the same
    streams; `[["s1", 500], ["s7", 20]]` leaves stream s1 after 500 tokens."""
    arrival: int | None = None
    """When the client sent it, where that is earlier than `t` (it arrived while a step ran)."""
    ordered_at: int | None = None
    """The arrival time that vLLM's priority queue orders by, where it is neither `arrival` nor `t`."""
    max_tokens: int = 1
    priority: int = 0
    held: bool = False
    """Admission holds it; it enters the queue with the `hold` record that lists it."""
    deferred: bool = False
    """It begins in vLLM's skipped queue (it waits for a grammar, say)."""
    group: str | None = None
    """The logical request it is a branch of."""
    label: str | None = None
    names: list[tuple[str, int]] = []
    """The workload's own labels of the prompt's segments, `[[label, n], ...]`; only where the
    prompt was built from labels. Never text."""
    salted: bool = False
    """It has a cache salt of its own."""
    token_ids: list[int] | None = None
    part: int = 0
    """Non-zero: repeated at the start of this part (the request began in an earlier one)."""


class Hold(Record, tag="hold"):
    """Admission held arrivals, then released them all."""

    begin: int
    end: int
    reason: str
    """`deadline`, `work`, `rows`, `tokens`, `abort`, or `fault`."""
    requests: list[int]
    """In the order in which they entered the queue."""


class Admission(msgspec.Struct, array_like=True):
    """Prefix facts of one request that a round selected from the waiting queue."""

    i: int
    ready: int
    """h: tokens served from the cache. What native scheduling resumes from."""
    matched: int
    """The longest single-group match at the look-up; > ready where a state is missing there."""
    external: int = 0
    """Tokens from a KV connector."""


class Blocked(msgspec.Struct, array_like=True):
    """A visit refused only because a state at the matched boundary is being written this round."""

    i: int
    producer: int
    """The request that writes it; -1 where unknown."""
    boundary: int
    """Tokens."""
    groups: list[int]
    """Cache groups whose component is in flight."""
    parked: bool = True
    """False: native scheduling, whose scan stopped here."""


class Other(msgspec.Struct, omit_defaults=True):
    """A visit that was not selected for any other reason, with the raw facts of the refusal."""

    i: int
    cause: str
    """`capacity`, `never_fits`, `alignment`, `tokens`, `fragmented`, `deferred`, `encoder`,
    `chunking`, `draft_padding`, `throttled`."""
    gate: str | None = None
    """For `capacity` and `never_fits`: `full_sequence` or `chunk`, the check that refused."""
    needed: int | None = None
    """Blocks the refusing gate asked for, the watermark left out."""
    free: int | None = None
    """Free blocks at that moment."""
    reserved: int | None = None
    watermark: int | None = None
    total: int | None = None
    """Usable blocks in the whole pool."""
    tokens_left: int | None = None
    """Of the budget when it was visited."""
    block: int | None = None
    """Tokens a block."""
    status: str | None = None
    """For `deferred`: what it waits for (`grammar`, `remote_kv`, `streaming`, `lora`,
    `stale_output`, `connector`, `encoder`, `throttled`)."""
    ready: int | None = None
    matched: int | None = None
    also: list[str] = []
    """Causes that would have refused it too (`blocked` behind `capacity`, say)."""
    producer: int | None = None
    """Of the state, where `also` names `blocked`."""
    boundary: int | None = None


class Probe(msgspec.Struct, omit_defaults=True):
    """What the free slots of a round could have been, asked without changing anything.

    A probed round has one even where it has nothing to say; a round without one was not probed.
    """

    avoidable: list[int] = []
    """Requests that the native check would have accepted, one after another in native order."""
    others: list[tuple[int, str]] = []
    """Why each further unselected waiting request was not one of them, in native order, as many
    as there are free slots left."""


class Stop(msgspec.Struct, omit_defaults=True):
    """Where the scan of the waiting queue ended before its end."""

    cause: str
    """The stopper's cause, or `rows` or `tokens` where no request stopped it."""
    i: int | None = None


class Round(Record, tag="round"):
    """One call of `schedule()` that scheduled a token, or stalled (CONTRACT, Terms)."""

    n: int
    """From 1, without holes but for recorded gaps."""
    t: int
    """Entry of `schedule()`."""
    d: int
    """Nanoseconds inside `schedule()`."""
    selected: list[int] = []
    """Flat: request, tokens, request, tokens, ... in native order."""
    admissions: list[Admission] = []
    """One for each of the last selected: those that came from the waiting queue."""
    blocked: list[Blocked] = []
    other: list[Other] = []
    order: list[int] = []
    """The requests passed over (parked, deferred, put aside), in the order visited."""
    stop: Stop | None = None
    closed: str | None = None
    """Why the waiting queue was not entered at all: `budget`, `preemption`, `paused`, `rows`."""
    resident: list[int] = []
    """Running requests that got no tokens."""
    preempted: list[int] = []
    """In the order preempted; each went to the front of the waiting queue."""
    free: int = 0
    """Free blocks when `schedule()` returned."""
    probe: Probe | None = None
    queue: tuple[list[int], list[int]] | None = None
    """Skipped and waiting queue in native order when the scan began; written where a reader can't
    know it (start of a part, after a gap, after a session's next turn)."""


class Repeat(Record, tag="repeat"):
    """The last round, stalled, came again `count` times and nothing had changed."""

    n: int
    """Number of the last repetition."""
    count: int
    t: int
    """Entry of the last one's `schedule()`."""


class Step(Record, tag="step"):
    """The worker's answer to a round reached the scheduler."""

    n: int
    t: int
    """Entry of `update_from_output()`. Host time of a round = t - (round.t + round.d)."""
    d: int = 0
    """Nanoseconds inside `update_from_output()`."""


class Cache(Record, tag="cache"):
    """What a round's allocations published to and evicted from the prefix cache.

    A span `(i, group, start, end)` names the boundaries of request i's tokens in `group`:
    start + b, start + 2b, ..., end, with b the group's block size.
    """

    n: int
    """The round (0: between rounds, before the first)."""
    published: list[tuple[int, int, int, int]] = []
    """A state published in round n can be read from round n+1 on."""
    evicted: list[tuple[int, int, int, int, int]] = []
    """With the request whose allocation evicted it last (-1: nobody's)."""
    cleared: bool = False
    """The whole prefix cache was reset."""
    events: list[tuple[int, int, int]] = []
    """Where vLLM publishes cache events: (group, tokens announced, hashes announced) of each store
    event whose two disagree."""


class Finish(Record, tag="finish"):
    """A request left the scheduler."""

    i: int
    t: int
    reason: str
    """`stop`, `length`, `abort`, `error`, `repetition`."""
    output: int = 0
    """Output tokens."""
    n: int = 0
    """The last round begun before it."""
    path: list[tuple[str, int]] = []
    """How its output continues its path, so that a later turn's prompt can name it."""
    token_ids: list[int] | None = None


class Gap(Record, tag="gap"):
    """Records are missing: the writer could not keep up, or a reader lost part of a file."""

    rounds: int
    """Rounds dropped."""
    records: int
    """Records dropped, rounds included."""
    first: int = 0
    last: int = 0
    """First and last round dropped."""
    what: str = "overload"
    """`overload`, `unreadable`, or `paths`: the tree of prompts was started afresh to bound its memory, so
    prefixes shared with requests before here no longer show."""


class End(Record, tag="end"):
    """The run is over. A trace without it was cut, or is still being written."""

    t: int
    reason: str
    """`finished`, `stalled`, `interrupted`, `shutdown`, `rotated`, `fault`."""
    rounds: int


AnyRecord = Header | Request | Hold | Round | Repeat | Step | Cache | Finish | Gap | End
