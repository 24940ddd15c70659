"""A coordination client without an SDK: one Session stream, spoken through the stubs that YDB's SDK brings along."""

import os
import queue
import threading

import grpc
from ydb._grpc.common import ydb_coordination_v1_pb2_grpc as coordination_grpc
from ydb._grpc.common.protos import ydb_coordination_pb2 as pb
from ydb._grpc.common.protos import ydb_status_codes_pb2 as codes

ADDRESS = f"127.0.0.1:{os.environ['SHARDINE_GRPC_PORT']}"
FOREVER = 2**64 - 1
Status = codes.StatusIds


def status(code):
    # coordination W-4: statuses are compared by the names that YDB's own SDK has for the numbers
    return Status.StatusCode.Name(code)


def ticket(token):
    """The metadata that carries a token."""
    return [] if token is None else [("x-ydb-auth-ticket", token)]


class Stream:
    """A Session stream as a client without an SDK would hold it. Answers pings unless told not to."""

    def __init__(self, path, session=0, timeout=5000, seq=0, key=b"", first=None, answer_pings=True, channel=None, token=None):
        self.channel = channel or grpc.insecure_channel(ADDRESS)
        self.asked = queue.Queue()
        self.heard = queue.Queue()
        self.pings = queue.Queue()
        self.answer_pings = answer_pings
        start = pb.SessionRequest.SessionStart(
            path=path, session_id=session, timeout_millis=timeout, seq_no=seq, protection_key=key
        )
        self.send(first or pb.SessionRequest(session_start=start))
        self.call = coordination_grpc.CoordinationServiceStub(self.channel).Session(
            iter(self.asked.get, None), metadata=ticket(token)
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        try:
            for message in self.call:
                # coordination W-6: what has no content, or is called unsupported, ends YDB's C++ client
                kind = message.WhichOneof("response")
                assert kind and not kind.startswith("unsupported"), message
                if message.HasField("ping"):
                    self.pings.put(message.ping.opaque)
                    if self.answer_pings:
                        self.send(pb.SessionRequest(pong=pb.SessionRequest.PingPong(opaque=message.ping.opaque)))
                else:
                    self.heard.put(message)
            self.heard.put("end")
        except grpc.RpcError as error:
            self.heard.put(error)

    def send(self, request):
        self.asked.put(request)

    def hear(self, field, seconds=10):
        """The next message, which must be this one."""
        message = self.heard.get(timeout=seconds)
        assert not isinstance(message, (str, grpc.RpcError)), f"wanted {field}, the stream ended: {message}"
        assert message.WhichOneof("response") == field, f"wanted {field}, got {message}"
        return getattr(message, field)

    def hears_nothing(self, seconds=0.3):
        try:
            message = self.heard.get(timeout=seconds)
        except queue.Empty:
            return
        raise AssertionError(f"nothing should have come, got {message}")

    def fails(self, wanted, seconds=10):
        """A Failure with this status, then the end with gRPC OK."""
        failure = self.hear("failure", seconds)
        assert status(failure.status) == wanted, failure
        assert failure.issues, "a failure says why"
        assert self.heard.get(timeout=5) == "end"

    def started(self):
        return self.hear("session_started").session_id

    def create(self, name, limit=1, data=b"", req=1):
        self.send(pb.SessionRequest(create_semaphore=dict(req_id=req, name=name, limit=limit, data=data)))
        return status(self.hear("create_semaphore_result").status)

    def update(self, name, data, req=2):
        self.send(pb.SessionRequest(update_semaphore=dict(req_id=req, name=name, data=data)))
        return status(self.hear("update_semaphore_result").status)

    def delete(self, name, force=False, req=3):
        self.send(pb.SessionRequest(delete_semaphore=dict(req_id=req, name=name, force=force)))
        return status(self.hear("delete_semaphore_result").status)

    def ask_acquire(self, name, count=1, timeout=FOREVER, data=b"", ephemeral=False, req=4):
        acquire = dict(req_id=req, name=name, count=count, timeout_millis=timeout, data=data, ephemeral=ephemeral)
        self.send(pb.SessionRequest(acquire_semaphore=acquire))

    def acquire(self, name, **options):
        self.ask_acquire(name, **options)
        return self.acquired()

    def acquired(self, seconds=10):
        result = self.hear("acquire_semaphore_result", seconds)
        return result.acquired if result.status == Status.SUCCESS else status(result.status)

    def release(self, name, req=5):
        self.send(pb.SessionRequest(release_semaphore=dict(req_id=req, name=name)))
        result = self.hear("release_semaphore_result")
        return result.released if result.status == Status.SUCCESS else status(result.status)

    def describe(self, name, watch_data=False, watch_owners=False, req=6):
        describe = dict(
            req_id=req, name=name, include_owners=True, include_waiters=True, watch_data=watch_data, watch_owners=watch_owners
        )
        self.send(pb.SessionRequest(describe_semaphore=describe))
        return self.hear("describe_semaphore_result")

    def lose(self):
        """The connection is gone, without a word."""
        self.call.cancel()

    def stop(self):
        self.send(pb.SessionRequest(session_stop=pb.SessionRequest.SessionStop()))
        self.hear("session_stopped")


def nodes():
    return coordination_grpc.CoordinationServiceStub(grpc.insecure_channel(ADDRESS))


def node(path, **config):
    operation = nodes().CreateNode(pb.CreateNodeRequest(path=path, config=pb.Config(**config))).operation
    assert operation.ready and operation.status == Status.SUCCESS, operation
    return path
