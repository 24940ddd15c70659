"""Says the same random commands to redis-server and to Shardine, and compares every reply, byte for byte.

    compare_with_redis.py [COUNT] [SEED | random]

Needs redis-server on the path, and SHARDINE_REDIS_PORT: a Shardine without tables, best with several lanes. Says COUNT
commands (COUNT from SECONDS on, whichever comes first) in rounds; each begins with empty servers and one of the two
protocols, and says commands one by one, in pipelines, in transactions and in transactions that watch, over two
connections. The seed is the same on every run, so that a run says the same of the same code. Ends at the first difference,
with the commands of that round that touched the same key; with KEEP_GOING=1 it tells all of them.

What docs/redis.md says is different is not said here, or not compared:

- the order of fields and keys, which ones are drawn, cursors; a second more or less to live (`comparable`, `is_near`)
- sums of floats whose last digits need more than 64 bits (`FLOATS`)
- transactions and scripts over several partitions, and commands that a transaction does not take (`in_transaction`, `script`)
- strings so long that one of both refuses to compare them (`LCS`)
- databases but the first, keys above 1,024 bytes, values above 32 MiB, replies above 128 MiB (`hrandfield`), 1,024 commands in a MULTI
- types and commands that are not there; the words of HELLO, INFO, COMMAND, CONFIG and CLIENT LIST
- DBSIZE of keys whose time is over, which Redis counts until somebody looks at them (`expire`)
"""

import os
import random
import socket
import subprocess
import sys
import tempfile
import time

COUNT = 40_000
SECONDS = 25
SEED = 7379
ROUND = 400

TAGGED = [b"{t}a", b"{t}b", b"{t}c", b"x{t}", b"{t}\x00\xff\r\n", b"{t}" + b"long" * 60]
FREE = [b"a", b"b", b"key:1", b"key:2", b"{other}a", b"\x80bin\x00", b"", b"a b", b"users:lili@7", b"100%"]
KEYS = TAGGED + FREE
FIELDS = [b"f1", b"f2", b"f3", b"value", b"", b"\x00\r\n\xfe", b"expires_at", b"f" * 300]
VALUES = [b"10", b"abc", b"", b"3.25", b"hello world", b"-5", b"0", b"007", b"+3", b"\x00\xff\r\n", b"9223372036854775807",
          b"-9223372036854775808", b"1e3", b"0x10", b" 1", b"x" * 700]
NUMBERS = [b"0", b"1", b"-1", b"2", b"5", b"10", b"100", b"-100", b"-0", b"01", b"+1", b" 1", b"1 ", b"", b"x", b"1.5", b"1e3",
           b"0x10", b"9223372036854775807", b"-9223372036854775807", b"-9223372036854775808", b"9223372036854775808",
           b"99999999999999999999", b"4611686018427387904", b"1\x00", b"\xd9\xa3"]
# Counted in floats alone, by few and small numbers, so that sums are the same in 64 and in 80 bits.
FLOAT_KEYS = [b"{t}float", b"x{t}float"]
FLOAT_FIELD = b"float"
FLOAT_VALUES = [b"10", b"abc", b"3.25", b"-5", b"0", b"0x10", b"1e3", b" 1", b"inf", b"nan", b"+3"]
FLOATS = [b"1.5", b"-3", b"0.25", b"1e2", b"0x1p3", b"-0X.8", b"+2", b".5", b"5.", b"nan", b"inf", b"-inf", b"infinity", b"x", b"",
          b" 1", b"1 ", b"0x", b"1e", b"--1", b"0", b"-0", b"00.5"]
TIMES = [b"100", b"1000", b"100000", b"1", b"0", b"-1", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775",
         b"9223372036854776", b"x", b"01", b"", b"1.5"]


# ---- the wire ----

class Reply(tuple):
    """Anything but a bulk string or a null: its mark, and what stands behind it."""


class Wire:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.at = b"", 0

    def close(self):
        self.socket.close()

    def send(self, batch):
        self.socket.sendall(b"".join(encoded(command) for command in batch))

    def line(self):
        while True:
            end = self.buffer.find(b"\r\n", self.at)
            if end >= 0:
                line, self.at = self.buffer[self.at:end], end + 2
                return line
            self.more()

    def more(self):
        received = self.socket.recv(1 << 18)
        if not received:
            raise ConnectionError("the server hung up")
        self.buffer, self.at = self.buffer[self.at:] + received, 0

    def bytes(self, length):
        while len(self.buffer) - self.at < length + 2:
            self.more()
        start, self.at = self.at, self.at + length + 2
        return self.buffer[start:start + length]

    def reply(self):
        line = self.line()
        mark, rest = line[:1], line[1:]
        if mark == b"$":
            return None if rest == b"-1" else self.bytes(int(rest))
        if mark == b"_":
            return Reply("_")
        if mark in b"*~%>":
            if rest == b"-1":
                return Reply("*-1")
            count = int(rest) * (2 if mark == b"%" else 1)
            return Reply((mark, tuple(self.reply() for _ in range(count))))
        if mark == b"=":
            return Reply((b"=", self.bytes(int(rest))))
        return Reply((mark, int(rest) if mark == b":" else rest))


def encoded(command):
    return b"".join([b"*%d\r\n" % len(command)] + [b"$%d\r\n%s\r\n" % (len(word), word) for word in command])


# ---- what is said ----

class Speaker:
    """Random commands. Each is a list of words."""

    def __init__(self, chance):
        self.chance = chance
        self.keys = KEYS

    def key(self):
        return self.chance.choice(self.keys)

    def any(self, *choices):
        return self.chance.choice(choices)

    def few(self, make, most=3):
        return [word for _ in range(self.chance.randint(1, most)) for word in make()]

    def value(self):
        if self.chance.random() < 0.002:
            return bytes([self.chance.randrange(256)]) * self.chance.choice([20_000, 300_000])
        return self.chance.choice(VALUES)

    def field(self):
        return self.chance.choice(FIELDS)

    def number(self):
        return self.chance.choice(NUMBERS)

    def time_option(self):
        name = self.any(b"EX", b"PX", b"EXAT", b"PXAT", b"ex")
        time_ = self.chance.choice(TIMES)
        if name.upper().endswith(b"AT") and time_ in (b"100", b"1000", b"100000"):
            time_ = self.any(b"1", b"33177117420" if name == b"EXAT" else b"33177117420000")
        if name == b"PX" and time_ in (b"1", b"100", b"1000"):
            time_ = b"100000"
        if name in (b"EX", b"ex") and time_ == b"1":
            time_ = b"100"
        return [name, time_]

    def set_options(self):
        options = []
        for _ in range(self.chance.choice([0, 0, 0, 1, 1, 2, 3])):
            options += self.any([b"NX"], [b"XX"], [b"GET"], [b"KEEPTTL"], [b"xx"], self.time_option(), self.time_option(), [b"BAD"],
                                [b"PERSIST"], [b"EX"])
        return options

    def getex_options(self):
        return self.any([], [b"PERSIST"], self.time_option(), self.time_option(), self.time_option() + self.time_option(), [b"BAD"],
                        [b"EX"], [b"GET"], [b"KEEPTTL"], [b"PERSIST", b"PERSIST"], [b"PERSIST", b"EX", b"100"])

    def expire(self):
        verb = self.any(b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT")
        time_ = self.chance.choice(TIMES)
        if verb.endswith(b"AT") and time_ in (b"100", b"1000", b"100000"):
            time_ = b"33177117420" if verb == b"EXPIREAT" else b"33177117420000"
        if verb == b"PEXPIRE" and time_ in (b"1", b"100", b"1000"):
            time_ = b"200000"
        if verb == b"EXPIRE" and time_ == b"1":
            time_ = b"150"
        return [verb, self.key(), time_]

    def condition(self):
        return self.any([b"NX"], [b"XX"], [b"GT"], [b"LT"], [b"XX", b"GT"], [b"NX", b"XX"], [b"GT", b"LT"], [b"BAD"], [b"nx"])

    def strings(self):
        key, value = self.key(), self.value()
        return self.any(
            [b"GET", key], [b"GET", key], [b"SET", key, value], [b"SET", key, value] + self.set_options(), [b"SETNX", key, value],
            [self.any(b"SETEX", b"PSETEX"), key, self.any(b"100000", self.chance.choice([b"0", b"-1", b"x", b"01"])), value],
            [b"GETSET", key, value], [b"GETDEL", key], [b"GETEX", key] + self.getex_options(),
            [b"MGET"] + self.few(lambda: [self.key()]), [b"MSET"] + self.few(lambda: [self.key(), self.value()]),
            [b"INCR", key], [b"DECR", key], [self.any(b"INCRBY", b"DECRBY"), key, self.number()],
            self.floats(), self.floats(), self.bits(key), self.bits(key),
            [b"MSETNX"] + self.few(lambda: [self.any(*TAGGED), self.value()]), [b"APPEND", key, value], [b"STRLEN", key],
            [self.any(b"GETRANGE", b"SUBSTR"), key, self.number(), self.number()],
            [b"SETRANGE", key, self.any(b"0", b"2", b"10", b"-1", b"x", b"99999999999", b"01"), self.any(value, b"")],
        )

    def bits(self, key):
        unit = self.any([], [b"BIT"], [b"byte"], [b"BAD"])
        return self.any(
            [b"GETBIT", key, self.number()], [b"SETBIT", key, self.any(b"0", b"7", b"9", b"100", self.number()), self.any(b"0", b"1", b"2", b"x")],
            [b"BITCOUNT", key] + self.any([], [self.number()], [self.number(), self.number()] + unit),
            [b"BITPOS", key, self.any(b"0", b"1", b"1", self.number())] + self.any([], [self.number()], [self.number(), self.number()] + unit),
        )

    def floats(self):
        key = self.any(*FLOAT_KEYS)
        return self.any(
            [b"INCRBYFLOAT", key, self.chance.choice(FLOATS)], [b"INCRBYFLOAT", key, self.chance.choice(FLOATS)],
            [b"SET", key, self.chance.choice(FLOAT_VALUES)], [b"GET", key], [b"DEL", key], [b"HSET", key, b"f", b"1"], [b"STRLEN", key],
        )

    def hashes(self):
        key, field = self.key(), self.field()
        pairs = self.few(lambda: [self.field(), self.value()])
        return self.any(
            [b"HSET", key] + pairs, [b"HSET", key] + pairs, [b"HMSET", key] + pairs, [b"HSETNX", key, field, self.value()],
            [b"HGET", key, field], [b"HGET", key, field], [b"HMGET", key] + self.few(lambda: [self.field()]), [b"HGETALL", key],
            [b"HKEYS", key], [b"HVALS", key], [b"HLEN", key], [b"HEXISTS", key, field], [b"HSTRLEN", key, field],
            [b"HDEL", key] + self.few(lambda: [self.field()]), [b"HINCRBY", key, field, self.number()],
            [b"HINCRBYFLOAT", key, FLOAT_FIELD, self.chance.choice(FLOATS)], [b"HSET", key, FLOAT_FIELD, self.chance.choice(FLOAT_VALUES)],
            self.hrandfield(key),
            [b"HSCAN", key, self.any(b"0", b"0", b"x", b"", b"-0", b"00")] + self.any([], [b"MATCH", b"f*"], [b"COUNT", self.number()], [b"BAD"],
                                                                  [b"MATCH"], [b"COUNT", b"1", b"MATCH", b"*1"]),
        )

    def hrandfield(self, key):
        count = self.number()
        # As many replies as that, with repetition, are refused here (docs/redis.md).
        if count.startswith(b"-") and len(count) > 6 and count != b"-9223372036854775808":
            count = b"-4"
        return [b"HRANDFIELD", key] + self.any([], [count], [count, self.any(b"WITHVALUES", b"withvalues", b"BAD")])

    def of_keys(self):
        key = self.key()
        return self.any(
            [self.any(b"DEL", b"UNLINK")] + self.few(lambda: [self.key()]), [self.any(b"EXISTS", b"TOUCH")] + self.few(lambda: [self.key()]),
            [b"TYPE", key], [b"TTL", key], [b"PTTL", key], [self.any(b"EXPIRETIME", b"PEXPIRETIME"), key], self.expire(), self.expire(),
            [b"PERSIST", key], self.of_several_keys(), self.of_several_keys(),
        )

    def of_several_keys(self):
        """Commands that look at several keys at one moment: they share a partition."""
        key = self.any(*TAGGED)
        bits = self.any(b"u8", b"i8", b"u1", b"i64", b"u63", b"i5", b"u64", b"x")
        offset = self.any(b"0", b"7", b"#1", b"100", b"-1", b"x", b"#99999999999")
        return self.any(
            [self.any(b"RENAME", b"RENAMENX"), key, self.any(*TAGGED)], [b"COPY", key, self.any(*TAGGED)] + self.any([], [b"REPLACE"], [b"BAD"]),
            [b"BITOP", self.any(b"AND", b"OR", b"XOR", b"BAD"), key] + self.few(lambda: [self.any(*TAGGED)]), [b"BITOP", b"NOT", key, self.any(*TAGGED)],
            [b"LCS", key, self.any(*TAGGED)] + self.any([], [b"LEN"], [b"IDX"], [b"IDX", b"WITHMATCHLEN", b"MINMATCHLEN", b"2"], [b"LEN", b"IDX"]),
            [b"BITFIELD", key, b"GET", bits, offset], [b"BITFIELD_RO", key, self.any(b"GET", b"SET"), bits, offset],
            [b"BITFIELD", key] + self.any([], [b"OVERFLOW", self.any(b"SAT", b"FAIL", b"WRAP", b"BAD")])
            + [self.any(b"SET", b"INCRBY"), bits, self.any(offset, b"0"), self.number(), b"GET", b"u8", b"0"],
        )

    def of_servers(self):
        return self.any(
            [b"PING"], [b"PING", self.value()], [b"ECHO", self.value()], [b"SELECT", self.any(b"0", b"x", b"-1", b"01", b"99")],
            [b"CLIENT", b"GETNAME"], [b"CLIENT", b"SETNAME", self.any(b"me", b"a b", b"", b"\n")], [b"FOO"] + self.few(lambda: [self.value()]),
            [b"\xff\x00bar", b"a\r\nb", b"x" * 200, b"y"], [b"AUTH", b"secret"], [b"AUTH", b"default", b"any"], [b"AUTH", b"other", b"any"],
            [b"HELLO", self.any(b"x", b"9", b"-3", b"02")], [b"HELLO", b"3", b"BAD"], [b"WAIT", b"x", b"0"], [b"WAIT", b"0", self.any(b"x", b"-1", b"1")],
            [b"UNWATCH"], [b"EXEC"], [b"DISCARD"], [b"RESET", b"x"], [b"EXEC", b"x"], [b"DISCARD", b"x"],
        )

    def alone(self):
        """What waits for all others of its connection, and cannot be part of a transaction here."""
        return self.any(
            [b"DBSIZE"], [b"KEYS", self.any(b"*", b"{t}*", b"a", b"[a-c]", b"*\\x00*", b"?", b"key:*", b"[^a]")], [b"RANDOMKEY"],
            self.expire() + self.condition(), [b"SCAN", self.any(b"x", b" 1", b"18446744073709551616", b"0 ")],
            [b"SCAN", b"0", self.any(b"COUNT", b"BAD")], [b"SCAN", b"0", b"COUNT", self.any(b"0", b"-1", b"x", b"01")],
            [b"FLUSHALL", b"BAD"], [self.any(b"FLUSHDB", b"FLUSHALL")] if self.chance.random() < 0.05 else [b"DBSIZE"],
        )

    def odd(self, command):
        """Now and then a word too many or too few."""
        if self.chance.random() > 0.03 or command[0] in (b"MSETNX", b"EVAL", b"EVAL_RO", b"RENAME", b"RENAMENX", b"COPY", b"BITOP", b"LCS"):
            return command
        if self.chance.random() < 0.5 and len(command) > 1:
            at = self.chance.randrange(1, len(command))
            return command[:at] + command[at + 1:]
        return command + [self.any(b"x", b"", b"1")]

    def one(self):
        kinds = [self.strings, self.hashes, self.of_keys, self.of_servers, self.alone, self.script]
        return self.odd(self.chance.choices(kinds, [40, 40, 18, 4, 5, 8])[0]())

    def script(self):
        """A small script over keys of one partition, made of the commands that are said one by one as well."""
        self.keys = TAGGED
        lines, args = [], []
        for number in range(self.chance.randint(1, 4)):
            command = self.chance.choices([self.strings, self.hashes, self.of_keys], [45, 40, 15])[0]()
            if command[0] in UNORDERED + LEFT + (b"LCS", b"HGETALL", b"HSCAN", b"HRANDFIELD", b"SCAN") or not all(self.may_say(word) for word in command[1:]):
                command = [b"GET", self.any(*TAGGED)]
            words = []
            for word in command:
                args.append(word)
                words.append("ARGV[%d]" % len(args))
            call = self.any("call", "pcall", "pcall")
            lines.append("t[%d] = redis.%s(%s)" % (number + 1, call, ", ".join(words)))
        self.keys = KEYS
        end = self.any("return t", "return t", "return t[1]", "return #t", "return cjson.encode(#t)", "return {type(t[1]), t[#t]}",
                       "if type(t[1]) == 'table' and t[1].err then return t[1].err end return t", "return tostring(t[1] == false)")
        text = "local t = {} %s %s" % (self.any(" ", "\n").join(lines), end)
        return [self.any(b"EVAL", b"EVAL", b"EVAL", b"EVAL_RO"), text.encode(), b"1", b"{t}a"] + args

    def may_say(self, word):
        """Keys of other partitions are not to be touched by a script here."""
        return word not in FREE and word not in FLOAT_KEYS

    def in_transaction(self):
        """All keys share a partition, and commands that a transaction does not take are not said."""
        self.keys = TAGGED
        command = self.odd(self.chance.choices([self.strings, self.hashes, self.of_keys], [45, 40, 15])[0]())
        if self.chance.random() < 0.02:
            command = self.any([b"FOO", b"x"], [b"MULTI"], [b"WATCH", b"{t}a"], [b"PING"], [b"ECHO", b"x"], [b"UNWATCH"], [b"SELECT", b"0"])
        if command[0] in (b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT") and self.chance.random() < 0.3:
            command = command[:3] + self.condition()
        if command[0] not in (b"FOO", b"MULTI", b"PING", b"ECHO", b"UNWATCH", b"SELECT") and len(command) > 1 and b"{t}" not in command[1]:
            command = command[:1] + [b"{t}a"] + command[2:]
        if command[0] in (b"MGET", b"DEL", b"UNLINK", b"EXISTS", b"TOUCH", b"WATCH"):
            command = command[:1] + [word if b"{t}" in word else b"{t}b" for word in command[1:]]
        if command[0] in (b"MSET", b"MSETNX"):
            command[1::2] = [word if b"{t}" in word else b"{t}b" for word in command[1::2]]
        self.keys = KEYS
        return command


# ---- what may differ ----

UNORDERED = (b"HKEYS", b"HVALS", b"KEYS")
LEFT = (b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME")


def is_failure(reply):
    return isinstance(reply, Reply) and reply[0] == b"-"


def comparable(command, reply):
    """A reply without what may differ: the order of fields and keys, which ones were drawn, and how much time has passed."""
    verb = command[0].upper()
    if not isinstance(reply, Reply) or is_failure(reply):
        return "a key" if verb in (b"RANDOMKEY", b"HRANDFIELD") and reply is not None and not is_failure(reply) else reply
    mark, rest = reply[0], reply[1] if len(reply) > 1 else None
    if verb in UNORDERED and mark == b"*":
        return sorted(rest)
    if verb == b"SCAN" and mark == b"*":
        return "a page"
    if verb == b"HELLO":
        return (mark, "words about the server")
    if verb == b"HGETALL":
        return (mark, sorted(zip(rest[::2], rest[1::2])))
    if verb == b"HSCAN" and mark == b"*":
        return (rest[0], sorted(zip(rest[1][1][::2], rest[1][1][1::2])))
    if verb == b"HRANDFIELD" and mark == b"*":
        count, is_flat = int(command[2]), len(command) > 3 and not isinstance(rest[0] if rest else None, Reply)
        drawn = len(rest) // 2 if is_flat else len(rest)
        return drawn if count < 0 or drawn == count else sorted(rest, key=repr)
    if verb in LEFT and mark == b":" and rest > 0:
        return round(rest / (20_000 if verb.startswith(b"P") else 20))
    return reply


def is_too_long(command, *replies):
    """Whether one of both has no room for a comparison: Redis as its memory allows, Shardine by the time that it takes."""
    said = (b"ERR too_large: LCS", b"ERR Insufficient memory, transient memory for LCS")
    return command[0] == b"LCS" and any(is_failure(reply) and reply[1].startswith(said) for reply in replies)


def is_near(command, ours, theirs):
    """Whether two times to live differ by no more than what passes between two servers."""
    verb = command[0].upper()
    if verb not in LEFT or not (isinstance(ours, Reply) and isinstance(theirs, Reply) and ours[0] == theirs[0] == b":"):
        return False
    return ours[1] > 0 and theirs[1] > 0 and abs(ours[1] - theirs[1]) <= (2_000 if verb.startswith(b"P") else 2)


# ---- one round ----

class Difference(Exception):
    pass


class Round:
    def __init__(self, chance, ports, protocol):
        self.speaker = Speaker(chance)
        self.chance = chance
        self.said = []
        # Two connections to each server, so that one may change what the other watches.
        self.pairs = [[Wire(port) for port in ports] for _ in range(2)]
        for pair in self.pairs:
            for wire in pair:
                wire.send([[b"HELLO", b"%d" % protocol], [b"FLUSHALL"]])
                wire.reply(), wire.reply()

    def close(self):
        for pair in self.pairs:
            for wire in pair:
                wire.close()

    def say(self, pair, batch):
        self.said += batch
        for wire in pair:
            wire.send(batch)
        return [[wire.reply() for _ in batch] for wire in pair]

    def compare(self, pair, batch):
        # Redis counts keys whose time is over until somebody looks at them.
        batch = [each for command in batch for each in ([[b"EXISTS"] + KEYS, command] if command[0] == b"DBSIZE" else [command])]
        for command, ours, theirs in zip(batch, *self.say(pair, batch)):
            self.check(command, ours, theirs)

    def check(self, command, ours, theirs):
        if comparable(command, ours) == comparable(command, theirs):
            return
        if not is_near(command, ours, theirs) and not is_too_long(command, ours, theirs):
            raise Difference(self.tell(command, ours, theirs))

    def tell(self, command, ours, theirs):
        def short(thing):
            text = repr(thing)
            return text if len(text) < 300 else text[:300] + "…"
        keys = [word for word in command[1:] if word in KEYS + FLOAT_KEYS]
        story = [each for each in self.said if command[0] in (b"DBSIZE", b"KEYS") or any(key in each[1:] for key in keys)][-25:]
        lines = [f"{short(command)}", f"  shardine {short(ours)}", f"  redis    {short(theirs)}", "  after"]
        return "\n".join(lines + [f"    {short(each)}" for each in story])

    def transaction(self, pair):
        queued = [self.speaker.in_transaction() for _ in range(self.chance.randint(0, 7))]
        watch = [[b"WATCH"] + [self.speaker.any(*TAGGED) for _ in range(self.chance.randint(1, 2))]]
        other = []
        if self.chance.random() < 0.4:
            self.compare(pair, watch)
            if self.chance.random() < 0.5:
                other = [self.speaker.in_transaction() for _ in range(2)]
                self.compare(self.pairs[1], [command for command in other if command[0] not in (b"MULTI", b"WATCH")] or [[b"PING"]])
        end = self.speaker.any([b"EXEC"], [b"EXEC"], [b"EXEC"], [b"EXEC"], [b"EXEC"], [b"DISCARD"], [b"EXEC", b"x"])
        batch = [[b"MULTI"]] + queued + [end]
        ours, theirs = self.say(pair, batch)
        kept = []
        for command, mine, other_ in zip(batch[:-1], ours, theirs):
            self.check(command, mine, other_)
            if other_ == (b"+", b"QUEUED"):
                kept.append(command)
        mine, other_ = ours[-1], theirs[-1]
        is_array = all(isinstance(each, Reply) and each[0] == b"*" and len(each[1]) == len(kept) for each in (mine, other_))
        if not is_array:
            return self.check(end, mine, other_)
        for command, one, another in zip(kept, mine[1], other_[1]):
            self.check(command, one, another)

    def scan(self, pair):
        """All keys, by pages of different sizes."""
        options = self.speaker.any([], [b"COUNT", b"3"], [b"MATCH", b"{t}*"], [b"TYPE", b"string"], [b"TYPE", b"hash"], [b"COUNT", b"1000"])
        found = []
        for wire in pair:
            keys, cursor = set(), b"0"
            for _ in range(200):
                wire.send([[b"SCAN", cursor] + options])
                _, (cursor, (_, page)) = wire.reply()
                keys.update(page)
                if cursor == b"0":
                    break
            found.append(sorted(keys))
        self.check([b"SCAN"] + options, *found)

    def expire(self, pair):
        """Keys that end by themselves. Redis forgets one when it is looked at, so all are, before they are counted."""
        keys = [self.speaker.key() for _ in range(3)]
        self.compare(pair, [[b"SET", key, b"short", b"PX", b"15"] for key in keys] + [[b"PEXPIRE", self.speaker.key(), b"15"]])
        time.sleep(0.03)
        self.compare(pair, [[b"EXISTS"] + KEYS, [b"MGET"] + KEYS, [b"DBSIZE"], [b"KEYS", b"*"]])
        self.compare(pair, [self.speaker.one() for _ in range(3)])

    def run(self, count):
        while len(self.said) < count:
            pair = self.chance.choice(self.pairs)
            kind = self.chance.random()
            if kind < 0.3:
                self.compare(pair, [self.speaker.one()])
            elif kind < 0.6:
                self.compare(pair, [self.speaker.one() for _ in range(self.chance.randint(2, 40))])
            elif kind < 0.97:
                self.transaction(self.pairs[0])
            elif kind < 0.99:
                self.scan(pair)
            elif self.chance.random() < 0.2:
                self.expire(pair)
        self.compare(self.pairs[0], [[b"DBSIZE"], [b"EXISTS"] + KEYS] + [[b"TYPE", key] for key in KEYS])
        return len(self.said)


def start_redis(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # All hashes are scanned in one page, and nothing is written to disk.
    arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder,
                 "--proto-max-bulk-len", "32mb", "--hash-max-listpack-value", "1073741824", "--hash-max-listpack-entries", "100000"]
    server = subprocess.Popen(["redis-server", *arguments], stdout=subprocess.DEVNULL)
    for _ in range(100):
        try:
            Wire(port).close()
            return server, port
        except ConnectionRefusedError:
            time.sleep(0.05)
    sys.exit("redis-server did not start")


def compare_all(count, seed, port, keep_going):
    said, failed, started = 0, 0, time.monotonic()
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        server, redis_port = start_redis(folder)
        try:
            while said < count and (count != COUNT or time.monotonic() - started < SECONDS):
                number += 1
                round_ = Round(random.Random(f"{seed}/{number}"), (port, redis_port), 2 + number % 2)
                try:
                    round_.run(min(ROUND, count))
                except Difference as difference:
                    failed += 1
                    print(f"round {number} of seed {seed}: {difference}", flush=True)
                    if not keep_going:
                        break
                finally:
                    said += len(round_.said)
                    round_.close()
        finally:
            server.terminate()
            server.wait()
    print(f"{said} replies compared, {failed} failed")
    return failed


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    wish = sys.argv[2] if len(sys.argv) > 2 else str(SEED)
    seed = random.randrange(1 << 32) if wish == "random" else int(wish)
    print(f"seed {seed}", flush=True)
    sys.exit(1 if compare_all(count, seed, int(os.environ["SHARDINE_REDIS_PORT"]), "KEEP_GOING" in os.environ) else 0)


main()
