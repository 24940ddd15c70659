"""Libraries that keep their things in Redis, unmodified: limiters, caches, sessions, locks. Each function is one claim.

What of them does not work here is claimed as well, so that docs/redis.md can be believed either way. Ends with 0 if all hold.
"""

import asyncio
import os
import sys
import traceback
import uuid

import redis
import redis.asyncio

PORT = int(os.environ["SHARDINE_REDIS_PORT"])
URL = f"redis://127.0.0.1:{PORT}/0"


def fails(action, *words):
    """Runs `action`, which must be refused with an error that contains all `words`."""
    try:
        answer = action()
    except redis.ResponseError as error:
        assert all(word in str(error) for word in words), f"{error} should contain {words}"
        return
    raise AssertionError(f"should have been refused, was answered {answer!r}")


def limits_counts_hits():
    from limits import parse, storage, strategies

    store, five = storage.storage_from_string(URL), parse("5/minute")
    assert store.check()
    for strategy in (strategies.FixedWindowRateLimiter, strategies.SlidingWindowCounterRateLimiter):
        limiter, who = strategy(store), uuid.uuid4().hex
        assert [limiter.hit(five, who) for _ in range(7)] == [True] * 5 + [False] * 2
        assert limiter.get_window_stats(five, who).remaining == 0
        assert not limiter.test(five, who)
        limiter.clear(five, who)
        assert limiter.test(five, who)
    # A moving window is a list, and a reset looks for keys from inside a script.
    fails(lambda: strategies.MovingWindowRateLimiter(store).hit(five, "x"), "LINDEX")
    fails(store.reset, "KEYS", "partition")


def flask_caching_remembers():
    from flask import Flask
    from flask_caching import Cache

    app = Flask("app")
    app.config.update(CACHE_TYPE="RedisCache", CACHE_REDIS_URL=URL, CACHE_KEY_PREFIX="flask-")
    cache, computed = Cache(app), []
    with app.app_context():

        @cache.memoize(60)
        def double(number):
            computed.append(number)
            return number * 2

        assert (double(2), double(2), computed) == (4, 4, [2])
        cache.delete_memoized(double)
        assert (double(2), computed) == (4, [2, 2])
        assert cache.set("a", {"b": [1]}, timeout=30) and cache.get("a") == {"b": [1]}
        assert not cache.add("a", 2)
        assert cache.set_many({"x": 1, "y": 2}) and cache.get_dict("x", "y") == {"x": 1, "y": 2}
        assert cache.has("x") and cache.delete("x") and cache.delete_many("y", "a")
        assert cache.cache.inc("n") == 1 and cache.cache.dec("n", 3) == -2
        assert cache.clear() and cache.get("x") is None


def aiocache_remembers():
    from aiocache import Cache
    from aiocache.lock import OptimisticLock, RedLock
    from aiocache.serializers import JsonSerializer

    async def work():
        cache = Cache(
            Cache.REDIS, endpoint="127.0.0.1", port=PORT, namespace="aio:", serializer=JsonSerializer()
        )
        await cache.set("a", {"x": 1}, ttl=50)
        assert await cache.get("a") == {"x": 1} and await cache.exists("a") and await cache.expire("a", 100)
        await cache.multi_set([("b", 1), ("c", 2)])
        assert await cache.multi_get(["b", "c", "none"]) == [1, 2, None]
        try:
            await cache.add("b", 3)
            raise AssertionError("it was there")
        except ValueError:
            pass
        assert await cache.increment("n", 3) == 3
        async with RedLock(cache, "lock", lease=2):
            pass
        async with OptimisticLock(cache, "b") as lock:
            await lock.cas(9)
        assert await cache.get("b") == 9 and await cache.delete("b") == 1
        # Several keys with a time go in one MULTI.
        try:
            await cache.multi_set([("d", 1), ("e", 2)], ttl=20)
            raise AssertionError("the keys live in several partitions")
        except redis.ResponseError as error:
            assert "partition" in str(error), error
        assert await cache.clear(namespace="aio:") and await cache.get("a") is None
        await cache.close()

    asyncio.run(work())


def django_redis_remembers():
    import django
    from django.conf import settings

    def cache(backend, **more):
        return {"BACKEND": backend, "LOCATION": URL, **more}

    one_partition = {"KEY_FUNCTION": "_django_keys.in_one_partition"}
    settings.configure(
        CACHES={
            "default": cache("django_redis.cache.RedisCache"),
            "own": cache("django.core.cache.backends.redis.RedisCache"),
            "tagged": cache("django_redis.cache.RedisCache", **one_partition),
            "own tagged": cache("django.core.cache.backends.redis.RedisCache", **one_partition),
        },
        SESSION_ENGINE="django.contrib.sessions.backends.cache",
        USE_TZ=True,
    )
    django.setup()
    from django.contrib.sessions.backends.cache import SessionStore
    from django.core.cache import caches

    for name in ("default", "own", "tagged", "own tagged"):
        it = caches[name]
        it.set("a", {"x": 1}, 30)
        assert it.get("a") == {"x": 1} and not it.add("a", 1) and it.touch("a", 100) and it.delete("a")
        it.set("n", 1)
        assert it.incr("n", 5) == 6 and it.decr("n") == 5
        it.set("v", 1)
        it.incr_version("v")
        assert it.get("v", version=2) == 1 and it.get_or_set("g", lambda: 5) == 5 and it.has_key("g")
        if "tagged" in name:
            it.set_many({"m1": 1, "m2": "b"})
            assert it.get_many(["m1", "m2", "m3"]) == {"m1": 1, "m2": "b"}
            it.delete_many(["m1", "m2"])
        else:
            fails(lambda: it.set_many({"m1": 1, "m2": "b", "m3": 1}), "partition")
        it.clear()
        assert it.get("g") is None

    it = caches["default"]
    it.set("t", 1, timeout=60)
    assert 58 <= it.ttl("t") <= 60 and it.pttl("t") > 1000 and it.persist("t") and it.expire("t", 5)
    assert "t" in list(it.iter_keys("*")) and "t" in it.keys("*")
    tagged = caches["tagged"]
    tagged.set_many({"foo-1": 1, "foo-2": 1, "bar": 1})
    assert tagged.delete_pattern("foo-*") == 2 and tagged.has_key("bar")
    with it.lock("lock", timeout=5):
        assert not it.lock("lock", timeout=5, blocking_timeout=0).acquire()
    session = SessionStore()
    session["user"] = 1
    session.save()
    again = SessionStore(session.session_key)
    assert again["user"] == 1
    again.cycle_key()
    again.flush()


def cachelib_remembers():
    from cachelib.redis import RedisCache

    cache = RedisCache("127.0.0.1", PORT)
    assert cache.set("a", 1) and cache.get_many("a", "b") == [1, None] and cache.clear()


def redis_py_works_asynchronously():
    async def work():
        pool = redis.asyncio.BlockingConnectionPool.from_url(URL, decode_responses=True, max_connections=20)
        client = redis.asyncio.Redis(connection_pool=pool)
        async with client.pipeline(transaction=True) as pipe:
            assert await pipe.set("{as}a", 1).incr("{as}a").execute() == [True, 2]
        async with client.lock("as-lock", timeout=30) as lock:
            assert await lock.owned() and await lock.extend(30) and await lock.reacquire()
        await asyncio.gather(*[client.incr("as-n") for _ in range(300)])
        assert await client.get("as-n") == "300"

        async def add_one():
            while True:
                async with client.pipeline() as pipe:
                    try:
                        await pipe.watch("as-w")
                        seen = int(await pipe.get("as-w") or 0)
                        pipe.multi()
                        await pipe.set("as-w", seen + 1).execute()
                        return
                    except redis.WatchError:
                        continue

        await asyncio.gather(*[add_one() for _ in range(20)])
        assert await client.get("as-w") == "20"
        assert {key async for key in client.scan_iter("as-*")} == {"as-n", "as-w"}
        await client.delete("as-n", "as-w", "{as}a")
        await client.aclose()

    asyncio.run(work())


CLAIMS = [
    limits_counts_hits,
    flask_caching_remembers,
    aiocache_remembers,
    django_redis_remembers,
    cachelib_remembers,
    redis_py_works_asynchronously,
]


def main():
    failed = 0
    for claim in CLAIMS:
        try:
            claim()
        except Exception:
            failed += 1
            print(f"FAILED: {claim.__name__}", file=sys.stderr)
            traceback.print_exc()
    print(f"{len(CLAIMS) - failed} held, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
