"""What programs that use redis-py rely on, through every way of connecting that they choose between.

Each function is one claim and works on keys of its own, so that they can be read and run alone. Ends with 0 if all hold.
"""

import os
import sys
import threading
import traceback

import redis

PORT = int(os.environ["SHARDINE_REDIS_PORT"])
MIB = 1024 * 1024


def connect(protocol, decode):
    return redis.Redis(
        host="127.0.0.1", port=PORT, protocol=protocol, decode_responses=decode, socket_timeout=60
    )


def form(client, text):
    """`text` as this client gives strings back: str if it decodes, else bytes."""
    return text if client.get_connection_kwargs()["decode_responses"] else text.encode()


def refused(action, *words):
    """Runs `action`, which must be refused with an error that contains all `words`."""
    try:
        answer = action()
    except redis.ResponseError as error:
        assert all(word in str(error) for word in words), f"{error} should contain {words}"
        return
    raise AssertionError(f"should have been refused, was answered {answer!r}")


def strings_come_back_as_they_were_set(client, key):
    assert client.set(key, "hello") is True
    assert client.get(key) == form(client, "hello")
    assert client.append(key, " world") == 11
    assert client.strlen(key) == 11
    assert client.getrange(key, 0, 4) == form(client, "hello")
    assert client.setrange(key, 6, "there") == 11
    assert client.get(key) == form(client, "hello there")
    assert client.getset(key, "new") == form(client, "hello there")
    assert client.set(key, "newer", get=True) == form(client, "new")
    assert client.type(key) == form(client, "string")
    assert client.getdel(key) == form(client, "newer")
    assert client.get(key) is None
    assert client.exists(key) == 0


def set_obeys_its_conditions(client, key):
    assert client.set(key, "1", xx=True) is None
    assert client.set(key, "1", nx=True) is True
    assert client.set(key, "2", nx=True) is None
    assert client.setnx(key, "3") is False
    assert client.set(key, "4", xx=True) is True
    assert client.get(key) == form(client, "4")


def several_keys_in_one_command(client, key):
    assert client.mset({f"{key}a": "1", f"{key}b": "2"}) is True
    assert client.mget(f"{key}a", f"{key}none", f"{key}b") == [form(client, "1"), None, form(client, "2")]
    assert client.exists(f"{key}a", f"{key}b", f"{key}none") == 2
    assert client.delete(f"{key}a", f"{key}b", f"{key}none") == 2
    assert client.unlink(f"{key}a") == 0


def counters_count(client, key):
    assert client.incr(key) == 1
    assert client.incrby(key, 41) == 42
    assert client.decr(key) == 41
    assert client.decrby(key, 51) == -10
    assert client.incrbyfloat(f"{key}f", 1.5) == 1.5
    assert client.incrbyfloat(f"{key}f", -0.25) == 1.25
    assert client.get(key) == form(client, "-10")


def hashes_hold_fields(client, key):
    assert client.hset(key, mapping={"name": "Lili", "age": 10}) == 2
    assert client.hset(key, "age", 11) == 0
    assert client.hget(key, "name") == form(client, "Lili")
    assert client.hget(key, "none") is None
    assert client.hmget(key, "age", "none") == [form(client, "11"), None]
    assert client.hgetall(key) == {form(client, "name"): form(client, "Lili"), form(client, "age"): form(client, "11")}
    assert sorted(client.hkeys(key)) == [form(client, "age"), form(client, "name")]
    assert sorted(client.hvals(key)) == [form(client, "11"), form(client, "Lili")]
    assert client.hlen(key) == 2
    assert client.hexists(key, "age") is True
    assert client.hexists(key, "none") is False
    assert client.hstrlen(key, "name") == 4
    assert client.hincrby(key, "age", 5) == 16
    assert client.hincrbyfloat(key, "weight", 2.5) == 2.5
    assert client.hsetnx(key, "name", "Bob") in (False, 0)
    assert dict(client.hscan_iter(key)) == client.hgetall(key)
    assert client.hrandfield(key) in client.hkeys(key)
    assert client.type(key) == form(client, "hash")
    assert client.hdel(key, "name", "none") == 1
    assert client.hdel(key, "age", "weight") == 2
    assert client.exists(key) == 0
    assert client.hgetall(key) == {}


def any_bytes_are_a_value(client, key):
    every_byte = bytes(range(256))
    client.set(key, every_byte)
    assert binary(client).get(key) == every_byte
    client.hset(f"{key}h", mapping={b"\x00\xff\r\n": every_byte, b"": b""})
    assert binary(client).hgetall(f"{key}h") == {b"\x00\xff\r\n": every_byte, b"": b""}


def eight_mebibytes_are_a_value(client, key):
    value = os.urandom(4096) * (8 * MIB // 4096)
    assert client.set(key, value) is True
    assert client.strlen(key) == len(value)
    assert binary(client).get(key) == value
    client.hset(f"{key}h", "big", value)
    assert binary(client).hget(f"{key}h", "big") == value
    assert client.delete(key, f"{key}h") == 2


def keys_expire(client, key):
    client.set(key, "1")
    assert client.ttl(key) == -1
    assert client.ttl(f"{key}none") == -2
    assert client.expire(key, 100) is True
    assert 98 <= client.ttl(key) <= 100
    assert 98_000 <= client.pttl(key) <= 100_000
    assert client.expire(key, 200, nx=True) in (False, 0)
    assert client.expire(key, 200, gt=True) in (True, 1)
    assert client.persist(key) is True
    assert client.ttl(key) == -1
    assert client.expire(f"{key}none", 10) is False
    client.set(key, "2", ex=50)
    assert 48 <= client.ttl(key) <= 50
    client.set(key, "3", keepttl=True)
    assert 48 <= client.ttl(key) <= 50
    client.set(key, "4")
    assert client.ttl(key) == -1
    assert client.getex(key, ex=60) == form(client, "4")
    assert 58 <= client.ttl(key) <= 60
    # A moment that is past is the end at once; what ends later is waited for by asking.
    assert client.pexpire(key, 1) is True
    while client.exists(key):
        pass
    assert client.get(key) is None
    assert client.ttl(key) == -2


def scan_finds_every_key_once_they_stand_still(client, key):
    names = {form(client, f"{key}{number}") for number in range(500)}
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.set(name, "x")
        pipe.execute()
    assert set(client.scan_iter(match=f"{key}*", count=37)) == names
    assert set(client.scan_iter(match=f"{key}*", _type="hash")) == set()
    assert set(client.keys(f"{key}*")) == names
    assert client.dbsize() >= 500
    assert client.delete(*names) == 500
    assert list(client.scan_iter(match=f"{key}*")) == []


def a_pipeline_answers_in_order(client, key):
    with client.pipeline(transaction=False) as pipe:
        for number in range(3000):
            pipe.hincrby(key, "n", 1)
            if number % 100 == 0:
                pipe.hget(key, "n")
        answers = pipe.execute()
    expected = []
    for number in range(3000):
        expected.append(number + 1)
        if number % 100 == 0:
            expected.append(form(client, str(number + 1)))
    assert answers == expected


def an_error_in_a_pipeline_stands_in_its_place(client, key):
    with client.pipeline(transaction=False) as pipe:
        pipe.set(key, "text")
        pipe.incr(key)
        pipe.get(key)
        answers = pipe.execute(raise_on_error=False)
    assert answers[0] is True
    assert isinstance(answers[1], redis.ResponseError), answers
    assert answers[2] == form(client, "text")


def a_transaction_is_answered_as_one(client, key):
    one, two = f"{{{key}}}one", f"{{{key}}}two"
    with client.pipeline(transaction=True) as pipe:
        answers = pipe.set(one, "1").incr(one).hset(two, "f", "v").hgetall(two).get(one).execute()
    assert answers == [True, 2, 1, {form(client, "f"): form(client, "v")}, form(client, "2")], answers


def a_transaction_over_partitions_is_refused_whole(client, key):
    # Keys without a tag in common: one of twenty others lies elsewhere for certain.
    with client.pipeline(transaction=True) as pipe:
        for number in range(20):
            pipe.set(f"{key}{number}", "x")
        refused(pipe.execute, "partition")
    assert client.exists(*[f"{key}{number}" for number in range(20)]) == 0


def a_watched_key_that_changed_stops_the_transaction(client, key):
    client.set(key, "1")
    with client.pipeline() as pipe:
        pipe.watch(key)
        seen = int(pipe.get(key))
        client.set(key, "10")
        pipe.multi()
        pipe.set(key, seen + 1)
        try:
            pipe.execute()
        except redis.WatchError:
            pass
        else:
            raise AssertionError("the change of another client was overlooked")
    assert client.get(key) == form(client, "10")


def a_read_modify_write_is_repeated_until_it_fits(client, key):
    client.set(key, "1")
    disturbances = [b"100", b"200"]

    def double(pipe):
        seen = int(pipe.get(key))
        if disturbances:
            client.set(key, disturbances.pop())
        pipe.multi()
        pipe.set(key, seen * 2)

    assert client.transaction(double, key) == [True]
    assert client.get(key) == form(client, "200")


def errors_are_the_ones_programs_look_for(client, key):
    client.set(key, "text")
    refused(lambda: client.incr(key), "not an integer")
    refused(lambda: client.execute_command("GET"), "wrong number of arguments")
    refused(lambda: client.execute_command("NOSUCH", "x"), "unknown command")
    refused(lambda: client.lpush(key, "x"), "unsupported")
    client.hset(f"{key}h", mapping={"a": "x", "b": "y"})
    refused(lambda: client.get(f"{key}h"), "WRONGTYPE")
    refused(lambda: client.hincrby(f"{key}h", "a", 1), "not an integer")
    refused(lambda: client.select(1), "")
    refused(lambda: client.set("k" * 1025, "x"), "")
    assert client.ping() is True


def a_connection_can_be_asked_about_itself(client, key):
    assert client.ping() is True
    assert client.echo(key) == form(client, key)
    assert client.client_setname("tester") is True
    assert client.client_id() > 0
    assert isinstance(client.info(), dict)
    assert "redis_version" in client.info("server")
    assert isinstance(client.config_get("maxmemory"), dict)
    connection = client.connection_pool.get_connection()
    here, there = ("%s:%d" % address for address in (connection._sock.getsockname(), connection._sock.getpeername()))
    connection.send_command("CLIENT", "LIST")
    words = str(connection.read_response())
    client.connection_pool.release(connection)
    assert f" addr={here} " in words and f" laddr={there} " in words
    assert client.command_count() > 50
    seconds, micros = client.time()
    assert seconds > 1_700_000_000 and 0 <= micros < 1_000_000


def records_show_their_versions(client, key):
    assert client.execute_command("REC.SET", key, "a", "1") == [1, 0]
    assert client.execute_command("REC.SET", key, "a", "2", "IFVERSION", 1) == [2, 0]
    refused(lambda: client.execute_command("REC.SET", key, "a", "3", "IFVERSION", 1), "version_mismatch")
    assert client.execute_command("REC.GET", key)[0] == 2
    assert client.execute_command("REC.GET", key, "VERSION", 2) == form(client, "UNCHANGED")


def binary(client):
    """A client of the same protocol that gives bytes back."""
    return connect(client.get_connection_kwargs()["protocol"], decode=False)


def a_script_reads_and_writes_at_one_moment(client, key):
    release = client.register_script(
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
    )
    client.set(key, "mine")
    assert release(keys=[key], args=["theirs"]) == 0
    assert release(keys=[key], args=["mine"]) == 1
    assert client.exists(key) == 0
    # A node that was not told the script says so, and the library tells it.
    client.script_flush()
    client.set(key, "mine")
    assert release(keys=[key], args=["mine"]) == 1
    assert client.script_exists(release.sha) == [True]
    refused(lambda: client.evalsha("f" * 40, 0), "No matching script")
    refused(lambda: client.eval("return redis.call('set', KEYS[1], 'x')", 2, "{a}", "{b}"), "must share one partition")
    refused(lambda: client.eval_ro("return redis.call('set', KEYS[1], 'x')", 1, key), "Write commands are not allowed")
    assert client.exists(key) == 0


def scripts_on_one_key_do_not_lose_each_other(client, key):
    add = "redis.call('set', KEYS[1], (tonumber(redis.call('get', KEYS[1])) or 0) + 1) return redis.call('get', KEYS[1])"
    problems = []

    def work():
        try:
            own = connect(client.get_connection_kwargs()["protocol"], True)
            for _ in range(25):
                own.eval(add, 1, key)
                own.incr(key)
        except Exception as problem:
            problems.append(problem)

    workers = [threading.Thread(target=work) for _ in range(8)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert not problems, problems
    assert int(client.get(key)) == 400


def a_script_in_a_transaction_is_part_of_it(client, key):
    pipeline = client.pipeline(transaction=True)
    pipeline.set(key, "1")
    pipeline.eval("return redis.call('incrby', KEYS[1], ARGV[1])", 1, key, 5)
    pipeline.expire(key, 100, nx=True)
    pipeline.get(key)
    assert pipeline.execute() == [True, 6, True, form(client, "6")]
    with client.pipeline() as pipeline:
        pipeline.watch(key)
        client.set(key, "other")
        pipeline.multi()
        pipeline.eval("return redis.call('set', KEYS[1], 'mine')", 1, key)
        try:
            pipeline.execute()
            raise AssertionError("the key had changed")
        except redis.WatchError:
            pass
    assert client.get(key) == form(client, "other")


def a_key_is_dumped_and_restored(client, key):
    raw = connect(client.get_connection_kwargs()["protocol"], False)
    raw.hset(key, mapping={"f": b"\x00\xff", "g": "2"})
    dump = raw.dump(key)
    refused(lambda: raw.restore(key, 0, dump), "Target key name already exists")
    raw.delete(key)
    assert raw.restore(key, 100_000, dump) == b"OK"
    assert raw.hgetall(key) == {b"f": b"\x00\xff", b"g": b"2"} and 90 < raw.ttl(key) <= 100
    refused(lambda: raw.restore(key, 0, dump[:-1] + b"x", replace=True), "checksum")
    assert raw.dump(key + "-absent") is None


def locks_of_the_library_hold(client, key):
    lock = client.lock(key, timeout=10)
    other = client.lock(key, timeout=10, blocking=False)
    assert lock.acquire() and not other.acquire()
    assert lock.extend(20) and lock.reacquire() and lock.owned()
    lock.release()
    assert other.acquire()
    try:
        lock.release()
        raise AssertionError("it was not held")
    except redis.exceptions.LockError:
        pass
    other.release()


def what_takes_long_lets_others_in_and_can_be_killed(client, key):
    other = connect(client.get_connection_kwargs()["protocol"], True)
    ends = []

    def work():
        # It may come to its own end before it is killed: then it begins again.
        while not ends or "too_large" in ends[-1]:
            try:
                other.eval("redis.call('set', KEYS[1], '1') while true do end", 1, key)
            except redis.ResponseError as error:
                ends.append(str(error))

    worker = threading.Thread(target=work)
    worker.start()
    while worker.is_alive():
        # Meanwhile the same key is to be had.
        assert client.get(key) is None
        try:
            client.script_kill()
        except redis.ResponseError as error:
            assert "No scripts in execution" in str(error), error
    worker.join()
    assert "Script killed by user" in ends[-1], ends
    assert client.exists(key) == 0


def functions_are_called_by_their_names(client, key):
    code = """#!lua name=tests
    redis.register_function('tests_add', function(keys, args) return redis.call('incrby', keys[1], args[1]) end)
    redis.register_function{function_name='tests_look', flags={'no-writes'},
        callback=function(keys) return redis.call('get', keys[1]) end}"""
    assert client.function_load(code, replace=True) == form(client, "tests")
    refused(lambda: client.function_load(code), "Library 'tests' already exists")
    assert client.fcall("tests_add", 1, key, 5) == 5 and client.fcall("tests_add", 1, key, 2) == 7
    assert client.fcall_ro("tests_look", 1, key) == form(client, "7")
    refused(lambda: client.fcall_ro("tests_add", 1, key, 1), "write flag")
    payload = binary(client).function_dump()
    assert client.function_delete("tests") in (True, form(client, "OK"))
    refused(lambda: client.fcall("tests_add", 1, key, 1), "Function not found")
    assert client.function_restore(payload) in (True, form(client, "OK"))
    assert client.fcall("tests_add", 1, key, 1) == 8
    assert len(client.function_list(library="tests")) == 1
    assert client.function_flush() in (True, form(client, "OK")) and client.function_list() == []


def a_client_ends_another(client, key):
    other = connect(client.get_connection_kwargs()["protocol"], True)
    other.client_setname(key)
    victim = other.client_id()
    assert [it["name"] for it in client.client_list(client_id=[victim])] == [key]
    assert client.client_kill_filter(_id=victim) == 1
    # It is gone from the list within a tick, without having said a word more.
    while client.client_list(client_id=[victim]):
        pass
    assert other.client_id() != victim


def a_pause_holds_writes_until_it_ends(client, key):
    other, answers = connect(client.get_connection_kwargs()["protocol"], True), []
    client.client_pause(60_000, all=False)
    writer = threading.Thread(target=lambda: answers.append(other.set(key, "1")))
    writer.start()
    for _ in range(100):
        assert client.get(key) is None
    client.client_unpause()
    writer.join()
    assert answers == [True] and client.get(key) == form(client, "1")


def the_slow_log_keeps_what_is_asked_for(client, key):
    client.slowlog_reset()
    client.config_set("slowlog-log-slower-than", 0)
    client.set(key, "1")
    client.config_set("slowlog-log-slower-than", 10_000)
    commands = [entry["command"] for entry in client.slowlog_get(100)]
    assert any(command.startswith(b"SET " + key.encode()) for command in commands), commands


def a_key_takes_another_name_with_its_time(client, key):
    here, there = f"{{{key}}}a", f"{{{key}}}b"
    client.set(here, "1", ex=1000)
    assert client.rename(here, there) is True
    assert client.exists(here) == 0 and 900 < client.ttl(there) <= 1000
    assert client.copy(there, here) is True and client.copy(there, here) is False
    assert 900 < client.ttl(here) <= 1000
    assert client.renamenx(here, there) is False
    refused(lambda: client.rename("{no}x", "{no}y"), "no such key")
    refused(lambda: client.rename("{a}x", "{b}y"), "must share one partition")


CLAIMS = [
    strings_come_back_as_they_were_set,
    set_obeys_its_conditions,
    several_keys_in_one_command,
    counters_count,
    hashes_hold_fields,
    any_bytes_are_a_value,
    eight_mebibytes_are_a_value,
    keys_expire,
    scan_finds_every_key_once_they_stand_still,
    a_pipeline_answers_in_order,
    an_error_in_a_pipeline_stands_in_its_place,
    a_transaction_is_answered_as_one,
    a_transaction_over_partitions_is_refused_whole,
    a_watched_key_that_changed_stops_the_transaction,
    a_read_modify_write_is_repeated_until_it_fits,
    errors_are_the_ones_programs_look_for,
    a_connection_can_be_asked_about_itself,
    records_show_their_versions,
    a_script_reads_and_writes_at_one_moment,
    scripts_on_one_key_do_not_lose_each_other,
    a_script_in_a_transaction_is_part_of_it,
    a_key_is_dumped_and_restored,
    locks_of_the_library_hold,
    what_takes_long_lets_others_in_and_can_be_killed,
    functions_are_called_by_their_names,
    a_client_ends_another,
    a_pause_holds_writes_until_it_ends,
    the_slow_log_keeps_what_is_asked_for,
    a_key_takes_another_name_with_its_time,
]


def main():
    failed = 0
    for protocol in (2, 3):
        for decode in (False, True):
            client = connect(protocol, decode)
            for number, claim in enumerate(CLAIMS):
                try:
                    claim(client, f"p{protocol}d{int(decode)}c{number}-")
                except Exception:
                    failed += 1
                    print(f"FAILED with protocol {protocol}, decode {decode}: {claim.__name__}", file=sys.stderr)
                    traceback.print_exc()
    print(f"{len(CLAIMS) * 4 - failed} held, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
