"""A port in between whose connections can be cut, as a network does."""

import socket
import threading
from contextlib import suppress

_PIECE = 65_536


class CuttingProxy:
    """Passes on what comes to ``port``, until ``cut`` ends all connections at once; new ones are passed on again."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._lock, self._open = threading.Lock(), set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        # Closing alone does not wake who waits for a connection.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def cut(self) -> int:
        """End every connection; how many there were."""
        with self._lock:
            ended, self._open = self._open, set()
        for each in ended:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        return len(ended) // 2

    def _accept(self):
        while True:
            try:
                inner, _ = self._listening.accept()
            except OSError:
                return
            try:
                outer = socket.create_connection(("127.0.0.1", self._target), timeout=10)
                outer.settimeout(None)
            except OSError:
                inner.close()
                continue
            with self._lock:
                self._open |= {inner, outer}
            for source, sink in ((inner, outer), (outer, inner)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        try:
            while piece := source.recv(_PIECE):
                sink.sendall(piece)
        except OSError:
            pass
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        # The other direction has its own thread; whoever ends last closes both.
        with self._lock:
            last = sink not in self._open or source not in self._open
            self._open -= {source, sink}
        if last:
            source.close()
            sink.close()
