"""One side of a restart: holds a semaphore, or looks what has become of it. The test that runs it kills the server between."""

import os
import sys

from _ydb_stream import Stream, node

PATH = "/local/restart"


def hold(timeout):
    """Holds `door` and waits for nothing more; prints its session."""
    node(PATH, self_check_period_millis=500, session_grace_period_millis=1)
    stream = Stream(PATH, timeout=int(timeout))
    session = stream.started()
    stream.create("door", data=b"config")
    assert stream.acquire("door", data=b"mine") is True
    print(session)


def back(session):
    """Comes back to what it held; nobody else gets it."""
    stream, other = Stream(PATH, session=int(session), timeout=20_000), Stream(PATH)
    assert stream.started() == int(session)
    assert other.started() > int(session)
    assert other.acquire("door", timeout=0) is False
    found = other.describe("door").semaphore_description
    assert found.data == b"config"
    assert [(o.session_id, o.data) for o in found.owners] == [(int(session), b"mine")]
    assert stream.acquire("door") is True
    print("held")


def wait(session):
    """The owner does not come back: the door is free after its time and the grace period, not before."""
    stream = Stream(PATH)
    stream.started()
    stream.ask_acquire("door")
    stream.hear("acquire_semaphore_pending")
    assert stream.acquired(seconds=20) is True
    Stream(PATH, session=int(session)).fails("SESSION_EXPIRED")
    print("freed")


{"hold": hold, "back": back, "wait": wait}[sys.argv[1]](sys.argv[2])
sys.stdout.flush()
os._exit(0)
