"""Says the same random commands to redis-server and to Shardine, and compares every reply.

Needs redis-py, redis-server on the path, and SHARDINE_REDIS_PORT. Strings and hashes keep to keys of their own, because
hash commands on a string are allowed here (docs/redis.md); floats keep to a field of their own, because Redis counts in
80 bits. The seed is the same on every run, so that a run says the same of the same code; `compare_with_redis.py SEED` says
other commands, `compare_with_redis.py random` those of a seed that it draws and prints. Ends at the first difference, or
after ROUNDS or SECONDS, whichever comes first.
"""

import os
import random
import socket
import subprocess
import sys
import tempfile
import time

import redis

SEED = 7379
ROUNDS = 12
SECONDS = 10

STRINGS = [b"{t}s%d" % number for number in range(4)]
HASHES = [b"{t}h%d" % number for number in range(4)]
FIELDS = [b"f1", b"f2", b"f3"]
NUMBERS = ["0", "1", "-1", "5", "100", "9223372036854775807", "-9223372036854775808", "x", "1.5", ""]
VALUES = [b"10", b"abc", b"", b"3.25", b"hello world", b"-5"]
# Commands that a transaction does not take, or that check less inside one.
NOT_QUEUED = {"TTL", "SETRANGE", "DBSIZE", "KEYS", "GETSET", "GETDEL", "GETEX", "PERSIST", "INCR", "APPEND", "EXPIRE"}


def commands(chance):
    """One random command."""
    pick = chance.choice
    string, hash_, field, value = pick(STRINGS), pick(HASHES), pick(FIELDS), pick(VALUES)
    either, other = pick(STRINGS + HASHES), pick(STRINGS + HASHES)
    small = pick(["-20", "-3", "-1", "0", "1", "2", "5", "30"])
    return pick([
        ["GET", either], ["SET", string, value], ["SET", string, value, pick(["NX", "XX"])], ["SET", string, value, "KEEPTTL"],
        ["SET", string, value, "EX", pick(["1000", "0", "-1", "x"])], ["SETNX", string, value], ["SETEX", string, "1000", value],
        ["GETSET", string, value], ["GETDEL", either], ["GETEX", either], ["GETEX", string, pick(["PERSIST", "BAD"])],
        ["INCR", string], ["DECR", string], ["INCRBY", string, pick(NUMBERS)], ["DECRBY", string, pick(NUMBERS)],
        ["APPEND", string, value], ["STRLEN", either], ["GETRANGE", either, small, pick(["-1", "0", "3"])],
        ["SETRANGE", string, pick(["0", "2", "10", "-1", "x"]), value], ["MSET", string, value, pick(STRINGS), value],
        ["MGET", either, other], ["HSET", hash_, field, value], ["HSET", hash_, field, value, pick(FIELDS), value],
        ["HSET", hash_, field], ["HMSET", hash_, field, value], ["HSETNX", hash_, field, value], ["HGET", hash_, field],
        ["HMGET", hash_, field, pick(FIELDS)], ["HGETALL", hash_], ["HKEYS", hash_], ["HVALS", hash_], ["HLEN", hash_],
        ["HEXISTS", hash_, field], ["HSTRLEN", hash_, field], ["HDEL", hash_, field, pick(FIELDS)],
        ["HINCRBY", hash_, field, pick(NUMBERS)], ["HINCRBYFLOAT", hash_, b"f4", pick(["1.5", "-3", "nan", "x"])],
        ["HRANDFIELD", hash_, pick(["0", "10"])], ["DEL", either, other], ["UNLINK", either], ["EXISTS", either, other],
        ["TOUCH", either, other], ["TYPE", either], ["TTL", either], ["EXPIRE", either, pick(["100", "200", "-1", "x"])],
        ["EXPIRE", either, str(chance.randrange(300, 90_000)), pick(["NX", "XX", "GT", "LT"])], ["PERSIST", either], ["DBSIZE"],
        ["KEYS", "*s*"], ["PING"], ["ECHO", value], ["GET"],
    ])


def can_be_queued(command):
    """A command with too few words would spoil the whole transaction, here as there."""
    return command[0] not in NOT_QUEUED and command != ["GET"] and not (command[0] == "HSET" and len(command) == 3)


class Near(int):
    """Seconds that are left: one may pass between the two servers."""

    def __eq__(self, other):
        return isinstance(other, Near) and abs(int(self) - int(other)) <= 2

    __hash__ = None


def comparable(command, reply):
    """A reply without what may differ: the code behind an error, and the order of fields and keys."""
    if isinstance(reply, Exception):
        return "error: " + str(reply).rsplit(" (", 1)[0]
    if isinstance(reply, dict):
        return sorted(reply.items())
    if command[0] == "HGETALL" and isinstance(reply, list):
        return sorted(zip(reply[::2], reply[1::2]))
    if command[0] in ("HKEYS", "HVALS", "HRANDFIELD", "KEYS") and isinstance(reply, list):
        return sorted(reply)
    if command[0] == "TTL" and isinstance(reply, int) and reply > 0:
        return Near(reply)
    return reply


def say(client, batch, atomic):
    pipeline = client.pipeline(transaction=atomic)
    pipeline.response_callbacks = {}
    for command in batch:
        pipeline.execute_command(*command)
    return pipeline.execute(raise_on_error=False)


def compare(clients, batch, atomic):
    replies = [[comparable(*pair) for pair in zip(batch, say(client, batch, atomic))] for client in clients]
    for command, ours, theirs in zip(batch, *replies):
        if ours != theirs:
            sys.exit(f"{command}\n  shardine {ours!r}\n  redis    {theirs!r}\n  within {batch}")


def start_redis(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
    server = subprocess.Popen(["redis-server", *arguments], stdout=subprocess.DEVNULL)
    for _ in range(100):
        try:
            redis.Redis(port=port).ping()
            return server, port
        except redis.ConnectionError:
            time.sleep(0.05)
    sys.exit("redis-server did not start")


def round_of(chance, ports):
    """The same commands in both protocols, alone and in transactions. Returns how many were compared."""
    compared = 0
    for protocol in (2, 3):
        clients = [redis.Redis(port=port, protocol=protocol) for port in ports]
        for client in clients:
            client.flushall()
        for _ in range(10):
            batch = [commands(chance) for _ in range(50)]
            compare(clients, batch, atomic=False)
            compared += len(batch)
        for _ in range(50):
            batch = [each for each in (commands(chance) for _ in range(6)) if can_be_queued(each)] or [["PING"]]
            compare(clients, batch, atomic=True)
            compared += len(batch)
    return compared


def main():
    wish = sys.argv[1] if len(sys.argv) > 1 else str(SEED)
    seed = random.randrange(1 << 32) if wish == "random" else int(wish)
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    end = time.monotonic() + SECONDS
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        server, port = start_redis(folder)
        try:
            for _ in range(ROUNDS):
                compared += round_of(chance, (int(os.environ["SHARDINE_REDIS_PORT"]), port))
                if time.monotonic() > end:
                    break
        finally:
            server.terminate()
            server.wait()
    print(f"{compared} replies compared, 0 failed")


main()
