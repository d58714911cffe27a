"""Listening sockets of several workers: when a worker accepts another's connections."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

from icecore.listening import UnacceptedConnections, listen


@contextmanager
def waiting_at(opened: socket.socket) -> Iterator[None]:
    with closing(socket.create_connection(opened.getsockname())):
        yield


def test_connections_that_have_just_come_are_left_to_their_own_worker() -> None:
    """Seen once, they may be new. Seen twice, their worker does not accept them."""
    with closing(listen("127.0.0.1", 0)) as left, closing(listen("127.0.0.1", 0)) as attended:
        unaccepted = UnacceptedConnections([left, attended])
        assert [] == unaccepted.check()
        with waiting_at(left), waiting_at(attended):
            assert [] == unaccepted.check()
            attended.accept()[0].close()
            assert [left] == unaccepted.check() == unaccepted.check()
            left.accept()[0].close()
            assert [] == unaccepted.check()
        with waiting_at(left):
            assert [] == unaccepted.check(), "its worker has come back meanwhile"
            assert [left] == unaccepted.check()
