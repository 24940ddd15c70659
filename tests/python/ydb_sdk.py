"""What programs that use YDB's own Python SDK rely on, against Shardine: nodes, sessions, semaphores, lost connections.

The SDK shows little of the protocol, so most claims speak it through the stubs that the SDK brings along, one stream each.
Each function is one claim and works on a node of its own. Ends with 0 if all hold.
"""

import asyncio
import os
import sys
import threading
import time
import traceback

import grpc
import ydb
import ydb.aio
from ydb._grpc.common import ydb_discovery_v1_pb2_grpc as discovery_grpc
from ydb._grpc.common.protos import ydb_discovery_pb2 as discovery_pb

from _ydb_stream import ADDRESS, FOREVER, Status, Stream, node, nodes, pb, status

# Discovery and nodes.


def discovery_leads_back_here(driver, path):
    # coordination-semantics 1, 2, 3
    stub = discovery_grpc.DiscoveryServiceStub(grpc.insecure_channel(ADDRESS))
    operation = stub.ListEndpoints(discovery_pb.ListEndpointsRequest(database="/local")).operation
    result = discovery_pb.ListEndpointsResult()
    assert operation.ready and operation.status == Status.SUCCESS and operation.result.Unpack(result)
    assert [f"{e.address}:{e.port}" for e in result.endpoints] == [ADDRESS] and result.endpoints[0].node_id
    # coordination-semantics 6
    who = discovery_pb.WhoAmIResult()
    assert stub.WhoAmI(discovery_pb.WhoAmIRequest()).operation.result.Unpack(who) and who.user


def the_sdk_makes_changes_and_drops_nodes(driver, path):
    # coordination-semantics 9, 10, 16, 17, 20, 23, 24, 203
    client = driver.coordination_client

    def config(check, grace):
        modes = ydb.coordination
        return modes.NodeConfig(
            self_check_period_millis=check,
            session_grace_period_millis=grace,
            read_consistency_mode=modes.ConsistencyMode.STRICT,
            attach_consistency_mode=modes.ConsistencyMode.UNSET,
            rate_limiter_counters_mode=modes.RateLimiterCountersMode.DETAILED,
        )

    client.create_node(path, config(10, 1000))
    client.create_node(path, config(500, 5000))
    described = client.describe_node(path)
    assert described.session_grace_period_millis == 1000 and described.self_check_period_millis == 10
    assert described.read_consistency_mode == ydb.coordination.ConsistencyMode.STRICT
    assert described.attach_consistency_mode == ydb.coordination.ConsistencyMode.UNSET
    client.alter_node(path, config(0, 12345))
    described = client.describe_node(path)
    assert described.session_grace_period_millis == 12345 and described.self_check_period_millis == 10
    client.delete_node(path)
    for call in (lambda: client.describe_node(path), lambda: client.delete_node(path)):
        try:
            call()
        except ydb.SchemeError:
            continue
        raise AssertionError("a missing node is a SchemeError")


def a_description_is_whole(driver, path):
    # coordination-semantics 18, 19
    node(path, read_consistency_mode=pb.CONSISTENCY_MODE_STRICT)
    operation = nodes().DescribeNode(pb.DescribeNodeRequest(path=path)).operation
    result = pb.DescribeNodeResult()
    assert operation.result.type_url == "type.googleapis.com/Ydb.Coordination.DescribeNodeResult"
    assert operation.result.Unpack(result)
    self_ = getattr(result, "self")
    assert self_.name == path.rsplit("/", 1)[1] and self_.type == 7
    assert result.config.path == "" and result.config.read_consistency_mode == pb.CONSISTENCY_MODE_STRICT


def wrong_node_calls_are_told_in_the_answer(driver, path):
    # coordination-semantics 4, 12, 13, 14
    def create(where, database=None, **config):
        metadata = [("x-ydb-database", database)] if database else []
        request = pb.CreateNodeRequest(path=where, config=pb.Config(**config))
        return status(nodes().CreateNode(request, metadata=metadata).operation.status)

    assert create("") == "BAD_REQUEST"
    assert create(path, path="/elsewhere") == "BAD_REQUEST"
    assert create("/other/locks", database="/local") == "BAD_REQUEST"
    assert create("/local", database="/local") == "BAD_REQUEST"
    assert create(path, database="/local") == "SUCCESS"
    # coordination-semantics 5, 212: no database, an empty ticket
    assert create(path) == "SUCCESS"
    request = pb.DescribeNodeRequest(path=path)
    assert nodes().DescribeNode(request, metadata=[("x-ydb-auth-ticket", "")]).operation.status == Status.SUCCESS


# Streams.


def a_stream_begins_with_a_start(driver, path):
    # coordination-semantics 31
    stream = Stream(path, first=pb.SessionRequest(ping=pb.SessionRequest.PingPong(opaque=1)))
    error = stream.heard.get(timeout=5)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "First message must be a SessionStart"


def wrong_starts_end_with_a_failure(driver, path):
    # coordination-semantics 34, 35, 36, 38, 39, 58
    Stream(path).fails("NOT_FOUND")
    Stream("").fails("BAD_REQUEST")
    node(path)
    Stream(path, timeout=1_800_001).fails("BAD_REQUEST")
    Stream(path, key=b"x" * 17).fails("BAD_REQUEST")
    Stream(path, session=99).fails("SESSION_EXPIRED")


def nonsense_ends_a_stream_and_not_its_session(driver, path):
    # coordination-semantics 41, 42, 43, 49
    node(path)
    start = pb.SessionRequest.SessionStart(path=path, timeout_millis=5000)
    for nonsense in (
        pb.SessionRequest(session_start=start),
        pb.SessionRequest(),
        pb.SessionRequest(unsupported_5=pb.Unsupported()),
        pb.SessionRequest(pong=pb.SessionRequest.PingPong(opaque=12345)),
    ):
        stream = Stream(path)
        session = stream.started()
        stream.send(nonsense)
        stream.fails("BAD_REQUEST")
        assert Stream(path, session=session).started() == session


def pings_go_both_ways(driver, path):
    # coordination-semantics 46, 47, 48
    node(path)
    stream = Stream(path, timeout=300)
    stream.started()
    assert stream.pings.get(timeout=1) != 0
    assert stream.pings.get(timeout=1) != stream.pings.get(timeout=1)
    stream.send(pb.SessionRequest(ping=pb.SessionRequest.PingPong(opaque=777)))
    assert stream.hear("pong").opaque == 777


def a_client_that_does_not_answer_is_detached(driver, path):
    # coordination-semantics 50
    node(path)
    stream = Stream(path, timeout=600, answer_pings=False)
    session = stream.started()
    stream.fails("TIMEOUT")
    assert Stream(path, session=session).started() == session


def an_echoed_ping_is_an_answer(driver, path):
    # coordination-semantics 51
    node(path)
    stream = Stream(path, timeout=300, answer_pings=False)
    stream.started()
    for _ in range(5):
        opaque = stream.pings.get(timeout=2)
        stream.send(pb.SessionRequest(ping=pb.SessionRequest.PingPong(opaque=opaque)))
        assert stream.hear("pong").opaque == opaque


# Semaphores.


def semaphores_of_all_kinds(driver, path):
    # coordination-semantics 72, 82, 84, 85, 95, 101, 110, 112, 117, 119, 149, 155, 156
    node(path)
    a, b = Stream(path), Stream(path)
    first, second = a.started(), b.started()
    assert a.create("door", limit=2, data=b"\x00\xff") == "SUCCESS"
    assert b.create("door", limit=9) == "ALREADY_EXISTS"
    assert a.acquire("door", count=2, data=b"mine") is True
    assert b.acquire("door", timeout=0) is False
    found = b.describe("door")
    assert not found.issues and not found.watch_added
    door = found.semaphore_description
    assert (door.name, door.data, door.count, door.limit, door.ephemeral) == ("door", b"\x00\xff", 2, 2, False)
    assert [(o.session_id, o.count, o.data, o.timeout_millis) for o in door.owners] == [(first, 2, b"mine", 0)]
    assert b.update("door", b"new") == "SUCCESS"
    assert b.delete("door") == "PRECONDITION_FAILED"
    assert a.release("door") is True and a.release("door") is False
    assert b.delete("door") == "SUCCESS"
    assert status(b.describe("door").status) == "NOT_FOUND"
    assert a.acquire("lock", count=FOREVER, ephemeral=True) is True
    assert b.acquire("lock", timeout=0, ephemeral=True) is False
    assert a.acquire("lock", count=1, ephemeral=True) is True
    assert b.acquire("lock", ephemeral=True) is True
    lock = b.describe("lock").semaphore_description
    assert lock.ephemeral and lock.limit == FOREVER and len(lock.owners) == 2
    a.stop()
    assert b.release("lock") is True
    assert status(b.describe("lock").status) == "NOT_FOUND"
    assert second != first


def two_clients_contend(driver, path):
    # coordination-semantics 118, 120, 132, 142, 150
    node(path)
    a, b, c = Stream(path), Stream(path), Stream(path)
    for stream in (a, b, c):
        stream.started()
    a.create("door")
    assert a.acquire("door") is True
    b.ask_acquire("door", req=40)
    assert b.hear("acquire_semaphore_pending").req_id == 40
    c.ask_acquire("door", timeout=300)
    c.hear("acquire_semaphore_pending")
    began = time.monotonic()
    assert c.acquired() is False and 0.2 < time.monotonic() - began < 2
    b.ask_acquire("door", req=41)
    older = b.hear("acquire_semaphore_result")
    assert (older.req_id, status(older.status)) == (40, "ABORTED")
    assert b.hear("acquire_semaphore_pending").req_id == 41
    assert a.release("door") is True
    assert b.acquired() is True
    c.ask_acquire("door")
    c.hear("acquire_semaphore_pending")
    c.send(pb.SessionRequest(release_semaphore=dict(req_id=9, name="door")))
    assert status(c.hear("acquire_semaphore_result").status) == "ABORTED"
    assert c.hear("release_semaphore_result").released


def watches_fire_once(driver, path):
    # coordination-semantics 163, 164, 167, 174, 177, 180
    node(path)
    watcher, other = Stream(path), Stream(path)
    watcher.started(), other.started()
    other.create("door", limit=3)
    assert watcher.describe("door", watch_data=True, req=60).watch_added
    other.update("door", b"new")
    changed = watcher.hear("describe_semaphore_changed")
    assert (changed.req_id, changed.data_changed, changed.owners_changed) == (60, True, False)
    other.update("door", b"newer")
    watcher.hears_nothing()
    watcher.describe("door", watch_data=True, req=61)
    watcher.send(pb.SessionRequest(describe_semaphore=dict(req_id=62, name="door", watch_owners=True)))
    replaced = watcher.hear("describe_semaphore_changed")
    assert (replaced.req_id, replaced.data_changed, replaced.owners_changed) == (61, False, False)
    watcher.hear("describe_semaphore_result")
    other.acquire("door")
    assert watcher.hear("describe_semaphore_changed").owners_changed
    watcher.describe("door", watch_data=True)
    other.delete("door", force=True)
    gone = watcher.hear("describe_semaphore_changed")
    assert gone.data_changed and gone.owners_changed


# Lost connections and time.


def a_lost_connection_keeps_what_it_holds(driver, path):
    # coordination-semantics 53, 54, 56, 69
    node(path)
    a, b = Stream(path, timeout=5000), Stream(path)
    session = a.started()
    b.started()
    a.create("door")
    a.acquire("door")
    a.lose()
    assert b.acquire("door", timeout=0) is False
    again = Stream(path, session=session, seq=1)
    assert again.started() == session
    assert again.acquire("door") is True


def an_expired_session_gives_way(driver, path):
    # coordination-semantics 55, 58
    node(path)
    a, b = Stream(path, timeout=500), Stream(path)
    session = a.started()
    b.started()
    a.create("door")
    a.acquire("door")
    b.ask_acquire("door")
    b.hear("acquire_semaphore_pending")
    a.lose()
    assert b.acquired() is True
    Stream(path, session=session).fails("SESSION_EXPIRED")


def a_session_can_be_taken_over(driver, path):
    # coordination-semantics 59, 61, 62, 65
    node(path)
    a = Stream(path, key=b"secret", seq=3)
    session = a.started()
    Stream(path, session=session, key=b"guess", seq=3).fails("BAD_SESSION")
    Stream(path, session=session, key=b"secret", seq=2).fails("BAD_SESSION")
    assert Stream(path, session=session, key=b"secret", seq=3).started() == session
    a.fails("BAD_SESSION")


def a_dropped_node_cuts_its_streams(driver, path):
    # coordination-semantics 26
    node(path)
    stream = Stream(path)
    stream.started()
    nodes().DropNode(pb.DropNodeRequest(path=path))
    stream.fails("UNAVAILABLE")
    Stream(path).fails("NOT_FOUND")


# The SDK itself.


def the_sdk_holds_a_semaphore(driver, path):
    # coordination-semantics 198
    client = driver.coordination_client
    client.create_node(path)
    with client.session(path) as session:
        semaphore = session.semaphore("job", limit=1)
        with semaphore:
            found = semaphore.describe()
            assert found.count == 1 and found.limit == 1
        assert semaphore.describe().count == 0
        # coordination-semantics 197
        assert session.semaphore("none").describe().status == ydb.StatusCode.NOT_FOUND


def two_sdk_clients_take_turns(driver, path):
    client = driver.coordination_client
    client.create_node(path)
    order = []

    def work(name):
        with client.session(path) as session:
            with session.semaphore("job", limit=1):
                order.append(f"{name} in")
                time.sleep(0.2)
                order.append(f"{name} out")

    workers = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "c")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    turns = [line.split()[0] for line in order]
    assert len(order) == 6 and turns[0::2] == turns[1::2], order


def the_sdk_stays_connected(driver, path):
    # coordination-semantics 52: longer than the SDK's patience of three seconds
    client = driver.coordination_client
    client.create_node(path)
    with client.session(path) as session:
        semaphore = session.semaphore("job", limit=1)
        with semaphore:
            time.sleep(5)
            assert semaphore.describe().count == 1


def the_asyncio_sdk_works_too(driver, path):
    async def work():
        async with ydb.aio.Driver(endpoint=f"grpc://{ADDRESS}", database="/local") as aio_driver:
            await aio_driver.wait(timeout=5)
            client = aio_driver.coordination_client
            await client.create_node(path)
            async with client.session(path) as session:
                async with session.semaphore("job", limit=1) as semaphore:
                    found = await semaphore.describe()
                    assert found.count == 1

    asyncio.run(asyncio.wait_for(work(), 30))


CLAIMS = [
    discovery_leads_back_here,
    the_sdk_makes_changes_and_drops_nodes,
    a_description_is_whole,
    wrong_node_calls_are_told_in_the_answer,
    a_stream_begins_with_a_start,
    wrong_starts_end_with_a_failure,
    nonsense_ends_a_stream_and_not_its_session,
    pings_go_both_ways,
    a_client_that_does_not_answer_is_detached,
    an_echoed_ping_is_an_answer,
    semaphores_of_all_kinds,
    two_clients_contend,
    watches_fire_once,
    a_lost_connection_keeps_what_it_holds,
    an_expired_session_gives_way,
    a_session_can_be_taken_over,
    a_dropped_node_cuts_its_streams,
    the_sdk_holds_a_semaphore,
    two_sdk_clients_take_turns,
    the_sdk_stays_connected,
    the_asyncio_sdk_works_too,
]


def main():
    failed = 0
    driver = ydb.Driver(endpoint=f"grpc://{ADDRESS}", database="/local", credentials=ydb.AnonymousCredentials())
    driver.wait(timeout=10, fail_fast=True)
    for claim in CLAIMS:
        try:
            claim(driver, f"/local/tests/{claim.__name__}")
        except Exception:
            failed += 1
            print(f"FAILED: {claim.__name__}", file=sys.stderr)
            traceback.print_exc()
    print(f"{len(CLAIMS) - failed} held, {failed} failed", flush=True)
    # The SDK's threads are not waited for: a session that it has lost would keep them busy for ever.
    os._exit(1 if failed else 0)


main()
