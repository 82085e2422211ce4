"""Addresses to listen on: who reaches them, what they are called, and what is wrong where they can't be had."""

from __future__ import annotations

import socket
from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def names_of(host: str) -> frozenset[str] | None:
    """The names that a server on `host` answers to; None for any. A page of elsewhere that has its own name point to
    this machine is refused by it."""
    return frozenset({"127.0.0.1", "localhost", "::1", host}) if is_loopback(host) else None


def in_url(host: str) -> str:
    """`host` as it stands in an address: an IPv6 one in brackets."""
    return f"[{host}]" if ":" in host else host


def unavailable(host: str, port: int, error: OSError) -> OSError:
    """The error of one line for an address that can't be listened on: which part of it is to blame."""
    what = "an address of this machine (--host)" if _is_of_host(host, error) else "a free port (--port)"
    return OSError(f"can't listen on {in_url(host)}:{port}: {error.strerror}; expected {what}")


def _is_of_host(host: str, error: OSError) -> bool:
    if isinstance(error, socket.gaierror):
        return True
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))  # any port: does the host alone work?
    except OSError:
        return True
    return False
