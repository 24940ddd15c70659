"""A client of the sharded service `goals` without the kit: the protocol of docs/kit.md ("Without the crate"), mode `All`.

    python kit_client.py HOSTS_FILE [PING_MS [SEARCH_MS [HOST_TIMEOUT_MS]]]

Reads calls as lines `DEADLINE_MS ID:COUNTER…` and answers each with one line. Needs grpcio."""

import asyncio, struct, sys, time
from types import SimpleNamespace as Record
import grpc.aio as grpc

METHOD, STAMP = "/goals.v1.GoalsMatcher/MatchSharded", "shardine-shard-bin"
RETRIES, PAUSE, KEYS_MAX, SILENT_PERIODS, RESERVE, SHARE = 2, 0.02, 10_000, 3, 100, 0.2

def varint(number):
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])

def read_varint(data, at):
    number = shift = 0
    while True:
        number, shift, at = number | (data[at] & 127) << shift, shift + 7, at + 1
        if data[at - 1] < 128:
            return number, at

def fields(data):
    """The fields of a protobuf message, by number; of repeated ones all."""
    found, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0: value, at = read_varint(data, at)
        elif tag & 7 == 1: value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        elif tag & 7 == 2:
            size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
        else: raise ValueError("no field of this service")
        found.setdefault(tag >> 3, []).append(value)
    return found

def encode(hits):
    bodies = [b"\x08" + varint(id) + b"\x10" + varint(counter) for id, counter in hits]
    return b"".join(b"\x0a" + varint(len(body)) + body for body in bodies)

def shard_of(data):
    one = {number: values[-1] for number, values in fields(data).items()}
    return Record(dc=one.get(1), age=(one.get(3, 0), one.get(4, 0)), lo=one.get(5, 0), number=one.get(8),
                  hi=1 << 64 if one.get(7) else one.get(6, 0), generation=one.get(9, 0))

def goals(packed):
    found, at = [], 0
    while at < len(packed):
        number, at = read_varint(packed, at)
        found.append(number)
    return found

def decode(data):
    told = fields(data)
    reaches = [fields(one) for one in told.get(1, [])]
    values = {one.get(1, [0])[0]: goals(b"".join(one.get(2, []))) for one in reaches}
    return values, bool(told.get(2, [0])[0]), told.get(3, [None])[0]

class Client:
    def __init__(self, path, ping, search, host_timeout):
        self.path, self.ping, self.search, self.host_timeout = path, ping, search, host_timeout
        self.hosts, self.sent, self.waiting, self.changed = {}, 0, 0, asyncio.Event()
        self.firsts, self.seconds = [], []

    async def run(self):
        while True:
            begun, listed = time.monotonic(), open(self.path).read().split()
            for address in set(self.hosts) - set(listed) if listed else ():
                del self.hosts[address]
            for address in set(listed) - set(self.hosts):
                call = grpc.insecure_channel(address).unary_unary(METHOD)
                self.hosts[address] = Record(address=address, call=call, shard=None, age=None, heard=0, version=0)
            await asyncio.gather(*(self.ask(host, [], self.host_timeout) for host in list(self.hosts.values())))
            while time.monotonic() < begun + (min(self.search, self.ping) if self.waiting else self.ping):
                await asyncio.sleep(0.01)

    async def ask(self, host, hits, timeout):
        """Values, or None if the host does not serve the keys; an error is raised. The map learns from all of it (A-11)."""
        self.sent += 1
        sent = self.sent
        try:
            values, matched, shard = decode(await host.call(encode(hits), timeout=max(timeout, 0.001)))
        except grpc.AioRpcError as error:
            stamp = dict(error.trailing_metadata() or ()).get(STAMP)
            if stamp: self.learn(host, sent, shard_of(stamp))
            if hits: raise
            return None
        if shard: self.learn(host, sent, shard_of(shard))
        return values if matched else None

    def learn(self, host, sent, shard):
        age, now = (*shard.age, sent), time.monotonic()
        if host.age and age < host.age and now - host.heard <= SILENT_PERIODS * self.ping:
            return
        if not host.shard or vars(host.shard) != vars(shard):
            host.version += 1
        host.shard, host.age, host.heard = shard, age, now
        self.changed.set()

    def replicas(self, key):
        alive = lambda host: time.monotonic() - host.heard <= SILENT_PERIODS * self.ping
        later = lambda one, two: (one.shard.dc, one.shard.number) == (two.shard.dc, two.shard.number) \
            and one.shard.generation > two.shard.generation > 0
        serving = [host for host in self.hosts.values() if host.shard and host.shard.lo <= key < host.shard.hi]
        living = [host for host in serving if alive(host)]
        return [host for host in living if not any(later(other, host) for other in living)], serving

    def may_repeat(self):
        now = time.monotonic()
        self.firsts, self.seconds = ([at for at in all if at > now - 60] for all in (self.firsts, self.seconds))
        self.seconds.append(now)
        return len(self.seconds) <= SHARE * len(self.firsts) + RESERVE

    async def get(self, hits, deadline):
        """One line: what was found, or why not all of it was."""
        keys, found, asked, why, tasks = dict(hits), {}, set(), {}, set()
        twice = [id for at, (id, _) in enumerate(hits) if id in dict(hits[:at])]
        if twice: return f"duplicate {twice[0]}"
        end, searching = time.monotonic() + deadline, False
        while len(found) < len(keys):
            self.changed.clear()
            carried = {id for task in tasks for id in task.ids}
            lots, orphans, lost = {}, [], []
            for id in keys.keys() - found.keys() - carried:
                best, serving = self.replicas(keys[id])
                fresh = lambda all: [host for host in all if (host.address, host.version, id) not in asked]
                chosen = fresh(best) or fresh(serving)
                for host in chosen:
                    lots.setdefault(host.address, (host, []))[1].append(id)
                if not chosen: (lost if serving and id in why else orphans).append(id)
            for host, ids in lots.values():
                for at in range(0, len(ids), KEYS_MAX):
                    part = ids[at:at + KEYS_MAX]
                    asked.update((host.address, host.version, id) for id in part)
                    self.firsts.append(time.monotonic())
                    task = asyncio.ensure_future(self.fetch(host, part, keys, found, why, end))
                    task.ids = part
                    tasks.add(task)
            if not tasks and not orphans: break
            if bool(orphans) != searching:
                searching = bool(orphans)
                self.waiting += 1 if searching else -1
            news = asyncio.ensure_future(self.changed.wait())
            left = end - time.monotonic()
            waits = tasks | ({news} if searching else set())
            done, _ = await asyncio.wait(waits, timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            tasks -= done
            if left <= 0: break
        self.waiting -= searching
        missing = sorted(keys.keys() - found.keys())                # who is late still teaches the map
        if not missing: return " ".join(["found", *(f"{id}={','.join(map(str, found[id]))}" for id in sorted(found))])
        nobody = sorted(id for id in missing if not self.replicas(keys[id])[1])
        if nobody: return "no-shard " + ",".join(map(str, nobody))
        told = {host: text for id in missing for host, text in why.get(id, {}).items()}
        return f"missing {','.join(map(str, missing))} from " + ", ".join(f"{host} ({told[host]})" for host in sorted(told))

    async def fetch(self, host, ids, keys, found, why, end):
        for attempt in range(1 + RETRIES):
            if attempt and not self.may_repeat(): return
            open_ids = [id for id in ids if id not in found]
            if not open_ids: return
            try:
                timeout = min(self.host_timeout, end - time.monotonic())
                values = await self.ask(host, [(id, keys[id]) for id in open_ids], timeout)
            except grpc.AioRpcError as error:
                for id in open_ids: why.setdefault(id, {})[host.address] = f"{error.code().name}: {error.details()}"
                await asyncio.sleep(PAUSE)
                continue
            if values is None: return
            for id in open_ids:
                if id in values: found.setdefault(id, values[id])
                else: why.setdefault(id, {})[host.address] = "no value"
            return

async def main(path, ping=10_000, search=1_000, host_timeout=500):
    client = Client(path, int(ping) / 1e3, int(search) / 1e3, int(host_timeout) / 1e3)
    pinger = asyncio.ensure_future(client.run())
    lines = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := (await lines.readline()).decode().split():
        hits = [tuple(map(int, hit.split(":"))) for hit in line[1:]]
        print(await client.get(hits, int(line[0]) / 1e3), flush=True)
    pinger.cancel()

asyncio.run(main(*sys.argv[1:]))
