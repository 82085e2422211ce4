"""Follows one vLLM engine's cache events over ZMQ, through gaps, silence and restarts.

    PUB      seq 0  seq 1  seq 2  --lost--  seq 5        what is published
    ROUTER   <- "from 3"   -> seq 3, seq 4, seq 5, end   what is asked for again

vLLM numbers messages from 0 (`ZmqEventPublisher`) and keeps the last ones for whoever asks. Where they are gone, what
the engine holds is not known any more, and the index forgets it: it may claim too little, never too much.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

import msgspec
import zmq
from zmq.utils.monitor import recv_monitor_message

from radixflow.index.events import EventReader, NamespaceOf, decode
from radixflow.index.namespace import Namespace
from radixflow.index.prefix_index import PrefixIndex

log = logging.getLogger(__name__)

_END = (-1).to_bytes(8, "big", signed=True)
_POLL_MS = 100
_REPLAY_MS = 2_000
"""As long as an engine may take to answer for what was missed."""


@dataclass(slots=True)
class FeedState:
    """How a feed stands."""

    connected: bool = False
    """The engine's socket is there."""
    next_seq: int = 0
    """Number of the next message."""
    gaps: int = 0
    """Times that messages were missing and came by replay."""
    losses: int = 0
    """Times that they didn't, and the index forgot the engine's blocks."""
    restarts: int = 0
    """Times that the numbers began anew."""
    faults: int = 0
    """Messages that couldn't be read, or that contradict the declared layout."""


class EngineFeed:
    """One engine's events, applied by a thread of its own; `state` is there to look at.

    endpoint: where the engine publishes (`tcp://host:5557`). replay_endpoint: where it answers for what was missed;
    without one, every gap is a loss. namespace_of: whose prefixes carry an adapter and a salt; by default the salt
    is a namespace of its own, so that what vLLM keeps apart stays apart.
    """

    def __init__(
        self,
        index: PrefixIndex,
        engine: str,
        endpoint: str,
        replay_endpoint: str | None = None,
        namespace_of: NamespaceOf | None = None,
    ) -> None:
        model = index.engines[engine]
        self.engine = engine
        self.state = FeedState()
        self._reader = EventReader(
            index, engine, namespace_of or (lambda adapter, salt: Namespace(model, adapter=adapter, salt=salt))
        )
        self._replayed: dict[int, bytes] = {}
        """Messages that came by replay and may still come as published."""
        self._endpoint = endpoint
        self._replay_endpoint = replay_endpoint
        self._context = zmq.Context.instance()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"radixflow-feed-{engine}", daemon=True)

    def start(self) -> EngineFeed:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop following. What the index knows of the engine stays until somebody removes it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_REPLAY_MS / 1000 + 1)

    def __enter__(self) -> EngineFeed:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self) -> None:
        socket = self._context.socket(zmq.SUB)
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        socket.subscribe(b"")
        monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        socket.connect(self._endpoint)
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        poller.register(monitor, zmq.POLLIN)
        try:
            while not self._stop.is_set():
                ready = dict(poller.poll(_POLL_MS))
                if monitor in ready:
                    self._link_changed(recv_monitor_message(monitor)["event"])
                if socket in ready:
                    _, seq, payload = socket.recv_multipart()
                    self.take(int.from_bytes(seq, "big"), payload)
        finally:
            socket.disable_monitor()
            monitor.close(linger=0)
            socket.close(linger=0)

    def _link_changed(self, event: int) -> None:
        if event == zmq.EVENT_DISCONNECTED:
            # Dead or cut off: either way nobody should be sent there for a prefix.
            self.state.connected = False
            self._forget()
        else:
            self.state.connected = True
            self._replay(0)  # what it published before we listened

    def take(self, seq: int, payload: bytes) -> None:
        """One published message. Numbers that are missing before it are asked for again."""
        state = self.state
        if seq < state.next_seq:
            if self._replayed.pop(seq, None) == payload:
                return  # it came by replay already; a publisher repeats nothing by itself
            state.restarts += 1
            self._forget()
        if seq > state.next_seq:
            state.gaps += 1
            self._replay(state.next_seq)
        if seq >= state.next_seq:
            self._apply(seq, payload)
        if self._replayed:
            self._replayed = {number: known for number, known in self._replayed.items() if number > seq}

    def _apply(self, seq: int, payload: bytes) -> None:
        state = self.state
        if seq > state.next_seq:  # gone for good, and with it what the engine holds
            state.losses += 1
            self._forget()
        state.next_seq = seq + 1
        try:
            self._reader.apply(decode(payload))
        except (msgspec.DecodeError, ValueError) as error:
            state.faults += 1
            if state.faults == 1:
                log.warning("feed of %s: message %d: %s", self.engine, seq, error)

    def _forget(self) -> None:
        self._reader.clear()
        self._replayed.clear()
        self.state.next_seq = 0

    def _replay(self, first: int) -> None:
        """Ask for the messages from `first` on; those that are there are applied in order."""
        if self._replay_endpoint is None:
            return
        socket = self._context.socket(zmq.DEALER)  # many answers to one question: more than a REQ socket takes
        socket.setsockopt(zmq.LINGER, 0)
        try:
            socket.connect(self._replay_endpoint)
            socket.send_multipart((b"", first.to_bytes(8, "big")))
            while socket.poll(_REPLAY_MS):
                _, _, number, payload = socket.recv_multipart()
                seq = int.from_bytes(number, "big")
                if number == _END:
                    return
                if seq >= self.state.next_seq:
                    self._apply(seq, payload)
                    self._replayed[seq] = payload
            log.warning("feed of %s: no answer for messages from %d on within 2 s", self.engine, first)
        finally:
            socket.close()
