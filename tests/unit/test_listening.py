"""Listening sockets of several workers: who takes what waits at them."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

from icecore.listening import Unattended, listen


@contextmanager
def waiting_at(opened: socket.socket) -> Iterator[None]:
    with closing(socket.create_connection(opened.getsockname())):
        yield


def test_connections_that_have_just_come_are_left_to_their_own_worker() -> None:
    """Seen once they may be new; seen again, nobody takes them."""
    with closing(listen("127.0.0.1", 0)) as left, closing(listen("127.0.0.1", 0)) as attended:
        unattended = Unattended([left, attended])
        assert [] == unattended.look()
        with waiting_at(left), waiting_at(attended):
            assert [] == unattended.look()
            attended.accept()[0].close()
            assert [left] == unattended.look() == unattended.look()
            left.accept()[0].close()
            assert [] == unattended.look()
        with waiting_at(left):
            assert [] == unattended.look(), "its worker has come back meanwhile"
            assert [left] == unattended.look()
