"""A network between a client and a server, which a test can cut."""

import socket
import struct
import threading
from urllib.parse import urlsplit

PIECE_BYTES = 256 << 10
CONNECT_SECONDS = 10

# Close sends a reset instead of the end of the stream, as a router does that lost its state.
RESET = struct.pack("ii", 1, 0)


class Network:
    """Passes connections on to the server of a URL, and counts the bytes that clients send. While
    it is cut, it resets each connection. For example, `cut_after(1000)` lets 1,000 more bytes
    pass."""

    def __init__(self, url):
        parts = urlsplit(url)
        self.server = (parts.hostname, parts.port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{parts.scheme}://127.0.0.1:{self.listener.getsockname()[1]}"
        self.lock = threading.Lock()
        self.sockets = set()
        self.sent = 0
        self.limit = None
        self.is_cut = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, size):
        """Cuts the network when clients have sent `size` more bytes."""
        with self.lock:
            self.limit = self.sent + size

    def mend(self):
        with self.lock:
            self.limit = None
            self.is_cut.clear()

    def close(self):
        self.listener.close()
        with self.lock:
            self._reset_all()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.is_cut.is_set():
                reset(client)
                continue
            try:
                server = socket.create_connection(self.server, CONNECT_SECONDS)
            except OSError:
                reset(client)
                continue
            server.settimeout(None)
            with self.lock:
                self.sockets |= {client, server}
            for source, target in ((client, server), (server, client)):
                is_sent = source is client
                passed = threading.Thread(target=self._pass, args=(source, target, is_sent))
                passed.daemon = True
                passed.start()

    def _pass(self, source, target, is_sent):
        try:
            while piece := source.recv(PIECE_BYTES):
                if is_sent:
                    self._count(len(piece))
                target.sendall(piece)
        except OSError:
            pass
        with self.lock:
            for end in (source, target):
                self.sockets.discard(end)
                shut(end)

    def _count(self, size):
        with self.lock:
            self.sent += size
            if self.limit is not None and self.sent >= self.limit and not self.is_cut.is_set():
                self.is_cut.set()
                self._reset_all()

    def _reset_all(self):
        for end in self.sockets:
            reset(end)
        self.sockets.clear()


def shut(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()


def reset(end):
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    except OSError:
        return
    shut(end)
