"""What a picture of the index is made of, and how one that came over the wire is read."""

from __future__ import annotations

import msgspec

MAX_ENGINES = 256
MAX_BLOCKS = 1_000_000
"""In all segments of a picture that is read."""
MAX_TOKENS = 1 << 40
MAX_TEXT = 200
"""Characters of a name in a picture that is read."""

READY, MATCHED = 1, 2


class Share(msgspec.Struct):
    """What an engine has of a segment."""

    engine: int
    """Its place in `Space.engines`."""
    held: dict[str, int]
    """Component -> blocks at which it is held, whether or not they're of use."""
    marks: list[tuple[int, int, int]]
    """Runs of boundaries `(first, last, READY or MATCHED)`, as depths in tokens."""


class Segment(msgspec.Struct):
    """An unbranched run of blocks that the same engines hold."""

    id: str
    """Of its first block; the same as long as that is known and begins a segment."""
    parent: str | None
    start: int
    """Tokens before it."""
    end: int
    name: str
    matched: list[int]
    """For each of `Space.engines`, h^ of a prompt that ends with this segment, in tokens."""
    ready: list[int]
    """And h."""
    shares: list[Share]
    hidden: int = 0
    """Segments behind it that aren't told, or were seen to be there and not read."""
    hidden_blocks: int = 0
    """Their blocks, as far as they were read."""


class Space(msgspec.Struct):
    """The tree of one namespace."""

    model: str
    revision: str
    adapter: str
    tenant: str
    salt: str
    """Not the salt itself: a mark that tells it from others."""
    block: int
    """Tokens a block."""
    components: list[str]
    engines: list[str]
    held: list[int]
    """For each of them, blocks of which it holds something."""
    blocks: int
    """Known."""
    duplicated: int
    """Copies beyond the first."""
    unread: int
    """Blocks that weren't looked at."""
    hidden: int
    """Segments at the root that aren't told."""
    hidden_blocks: int
    segments: list[Segment]
    """A parent before its children."""


class EngineTotal(msgspec.Struct):
    """What an engine holds in all."""

    name: str
    model: str
    blocks: int
    bytes: int | None
    """None where a block's size isn't known."""
    state: str
    """How its feed stands, in words."""


class Snapshot(msgspec.Struct, tag="index", tag_field="kind"):
    """The index at (nearly) one moment."""

    at: float
    """Unix time, seconds."""
    engines: list[EngineTotal]
    duplicated: int
    """Copies beyond the first, in all namespaces."""
    duplicated_bytes: int | None
    spaces: list[Space]
    hidden_spaces: int
    """Namespaces that aren't told."""


_decoder = msgspec.json.Decoder(Snapshot)


def read_picture(body: bytes) -> Snapshot:
    """A picture from JSON, checked: whoever draws it needn't. ValueError, one line, where it isn't one."""
    try:
        told = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no picture of an index: {error}") from None
    texts = [*(total.name for total in told.engines), *(total.state for total in told.engines)]
    _must(len(told.engines) <= MAX_ENGINES, f"{len(told.engines)} engines, expected at most {MAX_ENGINES}")
    blocks, seen = 0, set()
    for space in told.spaces:
        texts += [space.model, space.revision, space.adapter, space.tenant, space.salt, *space.components]
        _must(space.block > 0, f"blocks of {space.block} tokens, expected 1 or more")
        _must(
            set(space.engines) <= {total.name for total in told.engines}, "a namespace of an engine that isn't listed"
        )
        _must(len(space.held) == len(space.engines), f"{len(space.held)} counts for {len(space.engines)} engines")
        ends: dict[str | None, int] = {None: 0}
        for segment in space.segments:
            _must(segment.id not in seen, f"segment {segment.id[:20]!r} comes twice")
            _check(segment, space, ends)
            ends[segment.id] = segment.end
            seen.add(segment.id)
            blocks += (segment.end - segment.start) // space.block
            texts += [segment.id, segment.name, *(name for share in segment.shares for name in share.held)]
    _must(blocks <= MAX_BLOCKS, f"{blocks:,} blocks, expected at most {MAX_BLOCKS:,}")
    long = max(map(len, texts), default=0)
    _must(long <= MAX_TEXT, f"a name of {long:,} characters, expected at most {MAX_TEXT}")
    return told


def _check(segment: Segment, space: Space, ends: dict[str | None, int]) -> None:
    where, engines = f"segment {segment.id[:20]!r}", len(space.engines)
    _must(segment.parent in ends, f"{where} hangs from a segment that doesn't come before it")
    _must(ends.get(segment.parent) == segment.start, f"{where} doesn't begin where its parent ends")
    long = segment.end - segment.start
    _must(0 < long <= segment.end <= MAX_TOKENS and not long % space.block, f"{where} isn't some whole blocks long")
    _must(len(segment.matched) == len(segment.ready) == engines, f"{where} doesn't speak of {engines} engines")
    for share in segment.shares:
        _must(0 <= share.engine < engines, f"{where} speaks of engine {share.engine}, expected 0 to {engines - 1}")
        at = segment.start
        for first, last, state in share.marks:
            fits = at < first <= last <= segment.end and not (first - segment.start) % space.block
            _must(fits and not (last - first) % space.block, f"{where} has a boundary outside of it")
            _must(state in (READY, MATCHED), f"{where} has a boundary of state {state}, expected {READY} or {MATCHED}")
            at = last


def _must(holds: bool, words: str) -> None:
    if not holds:
        raise ValueError(f"no picture of an index: {words}")
