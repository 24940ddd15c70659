"""Tokens with rights, as the server's file gives them: `reader`, `writer` and `eraser` may do what they are called at /local/locks
and below; `master` may do everything. Ends with 0 if all holds."""

import os
import sys
import traceback

import grpc
from ydb._grpc.common import ydb_rate_limiter_v1_pb2_grpc as limiter_grpc
from ydb._grpc.common.protos import ydb_rate_limiter_pb2 as limiter_pb

from _ydb_stream import ADDRESS, Stream, nodes, pb, status, ticket

PATH = "/local/locks"
TOKENS = ("reader", "writer", "eraser")


def no_right_at_all_is_told_at_the_start():
    # coordination 195
    for path in ("/local/other", "/local/locksmith", "/local"):
        for token in TOKENS:
            Stream(path, token=token).fails("UNAUTHORIZED")
    # Nobody learns what there is where they have no rights; and whoever has no token of ours is not let in at all.
    for token in (None, "guess"):
        error = Stream(PATH, token=token).heard.get(timeout=5)
        assert error.code() == grpc.StatusCode.UNAUTHENTICATED, error


def a_missing_right_is_told_and_the_stream_goes_on():
    # coordination 196
    master = Stream(PATH, token="master")
    master.started()
    master.create("door", limit=10)
    may = {"reader": "describe", "writer": "write", "eraser": "delete"}
    for number, (token, right) in enumerate(may.items()):
        stream, own = Stream(PATH, token=token), f"{token}-door"
        stream.started()
        told = {
            "describe": [status(stream.describe("door").status)],
            "write": [stream.create(own), stream.update("door", b"x"), stream.acquire("door"), stream.release("door")],
        }
        for name, answers in told.items():
            refused = [answer in ("UNAUTHORIZED", None) for answer in answers]
            assert all(refused) if name != right else not any(refused), (token, name, answers)
        wanted = "SUCCESS" if right == "delete" else "UNAUTHORIZED"
        assert stream.delete("door", force=True) == wanted, token
        stream.stop()
    assert status(master.describe("door").status) == "NOT_FOUND"


def calls_about_nodes_need_rights_too():
    calls = {
        "reader": lambda path, token: nodes().DescribeNode(pb.DescribeNodeRequest(path=path), metadata=ticket(token)),
        "writer": lambda path, token: nodes().CreateNode(pb.CreateNodeRequest(path=path), metadata=ticket(token)),
        "eraser": lambda path, token: nodes().DropNode(pb.DropNodeRequest(path=path), metadata=ticket(token)),
    }
    calls["writer"]("/local/team", "master")
    calls["writer"]("/local/team/a", "master")
    for right, call in calls.items():
        for token in TOKENS:
            told = status(call("/local/locks", token).operation.status)
            wanted = "UNAUTHORIZED" if token != right else "SUCCESS"
            assert told == wanted, (right, token, told)
            assert status(call("/local/team", token).operation.status) == "UNAUTHORIZED"
    alter = pb.AlterNodeRequest(path=PATH)
    assert status(nodes().AlterNode(alter, metadata=ticket("reader")).operation.status) == "UNAUTHORIZED"
    calls["writer"](PATH, "master")


def the_rate_limiter_needs_them_too():
    stub = limiter_grpc.RateLimiterServiceStub(grpc.insecure_channel(ADDRESS))
    settings = limiter_pb.HierarchicalDrrSettings(max_units_per_second=100)
    create = limiter_pb.CreateResourceRequest(
        coordination_node_path=PATH, resource=limiter_pb.Resource(resource_path="api", hierarchical_drr=settings)
    )
    where = dict(coordination_node_path=PATH, resource_path="api")
    asked = [
        ("writer", lambda **m: stub.CreateResource(create, **m)),
        ("writer", lambda **m: stub.AcquireResource(limiter_pb.AcquireResourceRequest(required=1, **where), **m)),
        ("reader", lambda **m: stub.DescribeResource(limiter_pb.DescribeResourceRequest(**where), **m)),
        ("reader", lambda **m: stub.ListResources(limiter_pb.ListResourcesRequest(coordination_node_path=PATH), **m)),
        ("eraser", lambda **m: stub.DropResource(limiter_pb.DropResourceRequest(**where), **m)),
    ]
    for right, call in asked:
        for token in TOKENS:
            told = status(call(metadata=ticket(token)).operation.status)
            assert told == ("SUCCESS" if token == right else "UNAUTHORIZED"), (right, token, told)


def main():
    nodes().CreateNode(pb.CreateNodeRequest(path=PATH), metadata=ticket("master"))
    claims = [
        no_right_at_all_is_told_at_the_start,
        a_missing_right_is_told_and_the_stream_goes_on,
        calls_about_nodes_need_rights_too,
        the_rate_limiter_needs_them_too,
    ]
    for claim in claims:
        try:
            claim()
        except Exception:
            print(f"FAILED: {claim.__name__}", file=sys.stderr)
            traceback.print_exc()
            os._exit(1)
    print(f"{len(claims)} held", flush=True)
    os._exit(0)


main()
