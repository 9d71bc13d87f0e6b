"""Ports of this machine for the servers of a suite."""

import os
import socket

# As in `tests/ports`, which has the reasons: below the ports of outgoing connections.
FIRST, COUNT, APART = 16_384, 16_384, 64

_reserved = []


def reserve():
    """Returns a port of 127.0.0.1 that this process keeps until it ends. Only a server with
    SO_REUSEADDR can bind it, and no other process can reserve it."""
    begin = os.getpid() * APART + len(_reserved)
    for offset in range(COUNT):
        port = FIRST + (begin + offset) % COUNT
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            holder.close()
            continue
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _reserved.append(holder)
        return port
    raise OSError(f"no port from {FIRST} on is free")
