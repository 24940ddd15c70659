"""What programs that use YDB's own Python SDK rely on, against Shardine: nodes, sessions, semaphores, lost connections.

The SDK shows little of the protocol, so most claims speak it through the stubs that the SDK brings along, one stream each.
Each function is one claim and works on a node of its own. Ends with 0 if all hold.
"""

import asyncio
import os
import queue
import sys
import threading
import time
import traceback

import grpc
import ydb
import ydb.aio
from google.protobuf import duration_pb2
from ydb._grpc.common import ydb_discovery_v1_pb2_grpc as discovery_grpc
from ydb._grpc.common import ydb_rate_limiter_v1_pb2_grpc as limiter_grpc
from ydb._grpc.common.protos import ydb_discovery_pb2 as discovery_pb
from ydb._grpc.common.protos import ydb_operation_pb2 as operation_pb
from ydb._grpc.common.protos import ydb_rate_limiter_pb2 as limiter_pb

from _ydb_stream import ADDRESS, FOREVER, Status, Stream, node, nodes, pb, status



def wait_until(look, seconds=10):
    """What `look` gives as soon as it is something."""
    until = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.01)
    return found


def owner_of(name, path):
    """A stream that holds a semaphore of one token."""
    owner = Stream(path)
    owner.started()
    owner.create(name)
    assert owner.acquire(name) is True
    return owner


# Discovery and nodes.


def discovery_leads_back_here(driver, path):
    # coordination 1, 2, 3, W-1, W-5
    stub = discovery_grpc.DiscoveryServiceStub(grpc.insecure_channel(ADDRESS))
    operation = stub.ListEndpoints(discovery_pb.ListEndpointsRequest(database="/local")).operation
    result = discovery_pb.ListEndpointsResult()
    assert operation.ready and operation.status == Status.SUCCESS and operation.result.Unpack(result)
    assert [f"{e.address}:{e.port}" for e in result.endpoints] == [ADDRESS] and result.endpoints[0].node_id and not result.endpoints[0].ssl
    # coordination 6
    # coordination 7: there is one database here, and whatever a client calls it, it is meant
    for name in ("/nowhere", "", "no slash"):
        operation = stub.ListEndpoints(discovery_pb.ListEndpointsRequest(database=name)).operation
        assert operation.status == Status.SUCCESS and operation.result.Unpack(result) and result.endpoints
    who = discovery_pb.WhoAmIResult()
    assert stub.WhoAmI(discovery_pb.WhoAmIRequest()).operation.result.Unpack(who) and who.user


def the_sdk_makes_changes_and_drops_nodes(driver, path):
    # coordination 9, 10, 16, 17, 20, 23, 24, 203
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
    # coordination 18, 19, W-8
    node(path, read_consistency_mode=pb.CONSISTENCY_MODE_STRICT)
    operation = nodes().DescribeNode(pb.DescribeNodeRequest(path=path)).operation
    result = pb.DescribeNodeResult()
    assert operation.result.type_url == "type.googleapis.com/Ydb.Coordination.DescribeNodeResult"
    assert operation.result.Unpack(result)
    self_ = getattr(result, "self")
    assert self_.name == path.rsplit("/", 1)[1] and self_.type == 7
    assert result.config.path == "" and result.config.read_consistency_mode == pb.CONSISTENCY_MODE_STRICT


def wrong_node_calls_are_told_in_the_answer(driver, path):
    # coordination 4, 12, 13, 14
    def create(where, database=None, **config):
        metadata = [("x-ydb-database", database)] if database else []
        request = pb.CreateNodeRequest(path=where, config=pb.Config(**config))
        return status(nodes().CreateNode(request, metadata=metadata).operation.status)

    assert create("") == "BAD_REQUEST"
    assert create(path, path="/elsewhere") == "BAD_REQUEST"
    assert create("/other/locks", database="/local") == "BAD_REQUEST"
    assert create("/local", database="/local") == "BAD_REQUEST"
    assert create(path, database="/local") == "SUCCESS"
    # coordination 5, 212, W-2: no database, an empty ticket
    assert create(path) == "SUCCESS"
    request = pb.DescribeNodeRequest(path=path)
    assert nodes().DescribeNode(request, metadata=[("x-ydb-auth-ticket", "")]).operation.status == Status.SUCCESS


def parameters_of_operations_change_nothing(driver, path):
    # coordination 8: also values that nobody knows
    params = operation_pb.OperationParams(
        operation_mode=operation_pb.OperationParams.ASYNC,
        operation_timeout=duration_pb2.Duration(nanos=1),
        cancel_after=duration_pb2.Duration(seconds=-5),
        labels={"team": "a"},
        report_cost_info=99,
    )
    stub = nodes()
    for call, request in (
        (stub.CreateNode, pb.CreateNodeRequest(path=path, operation_params=params)),
        (stub.AlterNode, pb.AlterNodeRequest(path=path, operation_params=params)),
        (stub.DescribeNode, pb.DescribeNodeRequest(path=path, operation_params=params)),
        (stub.DropNode, pb.DropNodeRequest(path=path, operation_params=params)),
    ):
        operation = call(request).operation
        # coordination W-3
        assert operation.id == "" and operation.ready and operation.status == Status.SUCCESS, operation
    refused = stub.DescribeNode(pb.DescribeNodeRequest(path="/local/nowhere")).operation
    assert refused.ready and refused.status == Status.SCHEME_ERROR and refused.issues[0].message and refused.issues[0].severity, refused


# Streams.


def a_started_session_tells_its_timeout(driver, path):
    # coordination 33: YDB leaves it 0
    node(path)
    assert Stream(path, timeout=7000).hear("session_started").timeout_millis == 7000


def a_stream_begins_with_a_start(driver, path):
    # coordination 31
    stream = Stream(path, first=pb.SessionRequest(ping=pb.SessionRequest.PingPong(opaque=1)))
    error = stream.heard.get(timeout=5)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "First message must be a SessionStart"


def wrong_starts_end_with_a_failure(driver, path):
    # coordination 34, 35, 36, 38, 39, 58
    Stream(path).fails("NOT_FOUND")
    Stream("").fails("BAD_REQUEST")
    node(path)
    Stream(path, timeout=1_800_001).fails("BAD_REQUEST")
    Stream(path, key=b"x" * 17).fails("BAD_REQUEST")
    Stream(path, session=99).fails("SESSION_EXPIRED")


def nonsense_ends_a_stream_and_not_its_session(driver, path):
    # coordination 41, 42, 43, 49
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
    # coordination 46, 47, 48
    node(path)
    stream = Stream(path, timeout=300)
    stream.started()
    assert stream.pings.get(timeout=1) != 0
    assert stream.pings.get(timeout=1) != stream.pings.get(timeout=1)
    stream.send(pb.SessionRequest(ping=pb.SessionRequest.PingPong(opaque=777)))
    assert stream.hear("pong").opaque == 777


def a_client_that_does_not_answer_is_detached(driver, path):
    # coordination 50
    node(path)
    stream = Stream(path, timeout=600, answer_pings=False)
    session = stream.started()
    stream.fails("TIMEOUT")
    assert Stream(path, session=session).started() == session


def an_echoed_ping_is_an_answer(driver, path):
    # coordination 51
    node(path)
    stream = Stream(path, timeout=300, answer_pings=False)
    stream.started()
    for _ in range(5):
        opaque = stream.pings.get(timeout=2)
        stream.send(pb.SessionRequest(ping=pb.SessionRequest.PingPong(opaque=opaque)))
        assert stream.hear("pong").opaque == opaque


# Semaphores.


def semaphores_of_all_kinds(driver, path):
    # coordination 72, 82, 84, 85, 95, 101, 110, 112, 117, 119, 149, 155, 156
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
    # coordination 118, 120, 132, 142, 150
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
    # coordination 163, 164, 167, 174, 177, 180
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
    # coordination 53, 54, 56, 69, W-2
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
    # coordination 55, 58
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
    # coordination 59, 61, 62, 65
    node(path)
    a = Stream(path, key=b"secret", seq=3)
    session = a.started()
    Stream(path, session=session, key=b"guess", seq=3).fails("BAD_SESSION")
    Stream(path, session=session, key=b"secret", seq=2).fails("BAD_SESSION")
    assert Stream(path, session=session, key=b"secret", seq=3).started() == session
    a.fails("BAD_SESSION")


def a_dropped_node_cuts_its_streams(driver, path):
    # coordination 26
    node(path)
    stream = Stream(path)
    stream.started()
    nodes().DropNode(pb.DropNodeRequest(path=path))
    stream.fails("UNAVAILABLE")
    Stream(path).fails("NOT_FOUND")


# The SDK itself.


def the_sdk_holds_a_semaphore(driver, path):
    # coordination 198
    client = driver.coordination_client
    client.create_node(path)
    with client.session(path) as session:
        semaphore = session.semaphore("job", limit=1)
        with semaphore:
            found = semaphore.describe()
            assert found.count == 1 and found.limit == 1
        assert semaphore.describe().count == 0
        # coordination 197
        assert session.semaphore("none").describe().status == ydb.StatusCode.NOT_FOUND


def the_sdk_takes_a_wait_in_vain_for_success(driver, path):
    # coordination 199: `acquired` is not looked at
    owner = owner_of("job", node(path))
    with driver.coordination_client.session(path) as session:
        semaphore = session.semaphore("job", limit=1)
        # Thirty seconds in the SDK, where its own wait of the same length ends first.
        semaphore._async_semaphore._timeout_millis = 100
        semaphore.acquire()
        assert [o.session_id for o in semaphore.describe().owners] == [1]


def a_closed_sdk_session_lives_on(driver, path):
    # coordination 200: close does not stop it
    client = driver.coordination_client
    client.create_node(path)
    with client.session(path) as session:
        semaphore = session.semaphore("job", limit=1)
        semaphore.acquire()
        (owner,) = semaphore.describe().owners
    assert Stream(path).started() > owner.session_id
    again = Stream(path, session=owner.session_id)
    assert again.started() == owner.session_id
    assert again.describe("job").semaphore_description.owners[0].session_id == owner.session_id
    again.stop()


def the_sdk_comes_back_to_its_session(driver, path):
    # coordination 201: by its number, without a key, with what was not answered
    owner = owner_of("job", node(path))
    with driver.coordination_client.session(path) as session:
        semaphore = session.semaphore("job", limit=1)
        waiter = threading.Thread(target=semaphore.acquire, daemon=True)
        waiter.start()
        waiting = wait_until(lambda: owner.describe("job").semaphore_description.waiters)
        # Somebody takes its session away; it takes it back at once, which the thief hears.
        thief = Stream(path, session=waiting[0].session_id)
        assert thief.started() == waiting[0].session_id
        thief.fails("BAD_SESSION")
        # A stream answers in order: with this, what was sent again is in the queue, and not only behind the release.
        semaphore.describe()
        # The wait of the lost stream has no address any more: only one that was sent again, under its old number, is answered.
        assert owner.release("job") is True
        waiter.join(10)
        assert not waiter.is_alive()
        (now,) = owner.describe("job").semaphore_description.owners
        assert (now.session_id, now.order_id) == (waiting[0].session_id, waiting[0].order_id)


def the_sdk_waits_for_a_node_that_is_missing(driver, path):
    # coordination 202: for ever, and without a word
    client = driver.coordination_client
    found = queue.Queue()

    def look():
        with client.session(path) as session:
            found.put(session.semaphore("none").describe().status)

    threading.Thread(target=look, daemon=True).start()
    try:
        raise AssertionError(f"nothing should have come, got {found.get(timeout=0.5)}")
    except queue.Empty:
        client.create_node(path)
    assert found.get(timeout=20) == ydb.StatusCode.NOT_FOUND


# The rate limiter.


def units_come_at_their_rate(driver, path):
    # coordination 204-211
    node(path)
    stub = limiter_grpc.RateLimiterServiceStub(grpc.insecure_channel(ADDRESS))

    def resource(name, **settings):
        settings = limiter_pb.HierarchicalDrrSettings(**settings)
        return limiter_pb.Resource(resource_path=name, hierarchical_drr=settings)

    def ask(method, where=path, metadata=(), **fields):
        request = getattr(limiter_pb, f"{method}Request")(coordination_node_path=where, **fields)
        return getattr(stub, method)(request, metadata=metadata).operation

    def told(method, where=path, **fields):
        return status(ask(method, where, **fields).status)

    api = resource("api", max_units_per_second=1000, max_burst_size_coefficient=2, prefetch_coefficient=-1)
    assert told("CreateResource", resource=api) == "SUCCESS"
    assert told("CreateResource", resource=api) == "ALREADY_EXISTS"
    assert told("CreateResource", resource=resource("api", max_units_per_second=1)) == "BAD_REQUEST"
    assert told("CreateResource", resource=resource("bare")) == "BAD_REQUEST"
    assert told("CreateResource", resource=limiter_pb.Resource(resource_path="bare")) == "BAD_REQUEST"
    assert told("CreateResource", resource=resource("api/", max_units_per_second=1)) == "BAD_REQUEST"
    assert told("CreateResource", resource=resource("api/slow", max_units_per_second=0.1)) == "SUCCESS"
    assert told("DropResource", resource_path="api") == "BAD_REQUEST"
    for method in ("DropResource", "DescribeResource", "ListResources"):
        assert told(method, resource_path="none") == "NOT_FOUND"
    assert told("AlterResource", resource=resource("none", max_units_per_second=1)) == "NOT_FOUND"

    listed, described = limiter_pb.ListResourcesResult(), limiter_pb.DescribeResourceResult()
    assert ask("ListResources").result.Unpack(listed) and list(listed.resource_paths) == ["api"]
    assert ask("ListResources", recursive=True).result.Unpack(listed)
    assert list(listed.resource_paths) == ["api", "api/slow"]
    assert ask("DescribeResource", resource_path="api").result.Unpack(described) and described.resource == api

    assert told("AcquireResource", resource_path="api", required=2000) == "SUCCESS"
    assert told("AcquireResource", resource_path="api", required=100) == "SUCCESS"
    assert told("AcquireResource", resource_path="api/slow", used=100) == "SUCCESS"
    moment, long = duration_pb2.Duration(nanos=50_000_000), duration_pb2.Duration(seconds=60)
    for wanted, times in (
        ("TIMEOUT", dict(operation_timeout=moment)),
        ("TIMEOUT", dict(operation_timeout=moment, cancel_after=long)),
        ("CANCELLED", dict(operation_timeout=long, cancel_after=moment)),
    ):
        params = operation_pb.OperationParams(**times)
        assert told("AcquireResource", resource_path="api/slow", required=1, operation_params=params) == wanted
    # Durations that the protocol forbids are none at all.
    for never in (duration_pb2.Duration(seconds=-(2**63)), duration_pb2.Duration(seconds=-(2**63), nanos=-(2**31))):
        params = operation_pb.OperationParams(operation_timeout=never, cancel_after=never)
        assert told("AcquireResource", resource_path="api", used=1, operation_params=params) == "SUCCESS"
    assert told("AcquireResource", resource_path="none", required=1) == "BAD_REQUEST"
    assert told("AcquireResource", resource_path="api") == "BAD_REQUEST"

    assert told("ListResources", where="/local/nowhere") == "SCHEME_ERROR"
    assert told("ListResources", where="/local/tests") == "BAD_REQUEST"
    assert told("ListResources", metadata=[("x-ydb-database", "/other")]) == "BAD_REQUEST"
    assert told("AlterResource", resource=resource("api", max_units_per_second=5)) == "SUCCESS"
    assert told("DropResource", resource_path="api/slow") == told("DropResource", resource_path="api") == "SUCCESS"


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
    # coordination 52: longer than the SDK's patience of three seconds
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
    parameters_of_operations_change_nothing,
    a_started_session_tells_its_timeout,
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
    the_sdk_takes_a_wait_in_vain_for_success,
    a_closed_sdk_session_lives_on,
    the_sdk_comes_back_to_its_session,
    the_sdk_waits_for_a_node_that_is_missing,
    units_come_at_their_rate,
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
