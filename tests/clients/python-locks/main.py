"""Locks, limits and queues of Python that are scripts."""

import logging
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import limits
import redis
import redis_lock
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter
from redis.exceptions import LockError, LockNotOwnedError
from rq import Queue

from checks import PORT, case, equal, eventually, holds, raises, run

logging.disable(logging.CRITICAL)
r = redis.Redis(port=PORT)
r.flushall()
r.function_flush()


@case
def a_lock_of_redis_py_is_held_by_one():
    lock, other = r.lock("lock", timeout=10), r.lock("lock", blocking=False)
    holds(lock.acquire() and not other.acquire())
    holds(lock.owned() and lock.locked() and not other.owned())
    lock.extend(20)
    holds(20_000 < r.pttl("lock") <= 30_000)
    lock.reacquire()
    holds(r.pttl("lock") <= 10_000)
    lock.release()
    raises(LockError, "", lock.release)
    with r.lock("lock", timeout=10):
        holds(not other.acquire())
    short = r.lock("lock", timeout=0.1)
    holds(short.acquire())
    eventually(other.acquire, 30)
    raises(LockNotOwnedError, "", short.release)
    other.release()


@case
def a_lock_that_was_lost_cannot_be_released():
    lock = r.lock("lost", timeout=10)
    holds(lock.acquire())
    r.set("lost", "another's")
    raises(LockNotOwnedError, "", lock.release)
    equal(r.get("lost"), b"another's")


@case
def registered_scripts_are_sent_again():
    script = r.register_script("redis.call('incrby', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])")
    equal(script(keys=["n"], args=[5]), b"5")
    r.script_flush()
    equal(script(keys=["n"], args=[2]), b"7")
    r.script_flush()
    pipeline = r.pipeline()
    script(keys=["n"], args=[1], client=pipeline)
    pipeline.get("n")
    equal(pipeline.execute(), [b"8", b"8"])
    equal(r.script_exists(script.sha, "0" * 40), [True, False])


@case
def functions_are_loaded_and_called():
    code = """#!lua name=counters
    redis.register_function('bump', function(keys, args) return redis.call('incrby', keys[1], args[1]) end)
    redis.register_function{function_name='look', callback=function(keys) return redis.call('get', keys[1]) end, flags={'no-writes'}}"""
    equal(r.function_load(code), b"counters")
    equal([r.fcall("bump", 1, "f", 3), r.fcall("bump", 1, "f", 4), r.fcall_ro("look", 1, "f")], [3, 7, b"7"])
    raises(redis.ResponseError, "Can not execute a script with write flag", r.fcall_ro, "bump", 1, "f", 1)
    dumped = r.function_dump()
    r.function_flush()
    r.function_restore(dumped)
    equal(r.fcall("bump", 1, "f", 1), 8)
    equal(len(r.function_list()), 1)


@case
def python_redis_lock_waits_and_is_woken():
    first, woken = redis_lock.Lock(r, "waited", expire=10), []

    def wait():
        with redis_lock.Lock(r, "waited", expire=10):
            woken.append(time.monotonic())

    holds(first.acquire(blocking=False))
    holds(not redis_lock.Lock(r, "waited", expire=10).acquire(blocking=False))
    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.2)
    equal(woken, [])
    first.release()
    waiter.join(30)
    equal(len(woken), 1)
    raises(redis_lock.NotAcquired, "", first.release)


@case
def python_redis_lock_is_renewed_and_reset():
    lock = redis_lock.Lock(r, "renewed", expire=4, auto_renewal=True)
    holds(lock.acquire())
    time.sleep(4.5)
    holds(r.exists("lock:renewed") == 1)
    lock.extend(expire=30)
    holds(r.ttl("lock:renewed") > 20)
    lock.release()
    redis_lock.Lock(r, "renewed").acquire()
    redis_lock.reset_all(r)
    holds(redis_lock.Lock(r, "renewed").acquire(blocking=False))


@case
def limits_count_in_windows():
    storage = RedisStorage(f"redis://127.0.0.1:{PORT}")
    three, second = limits.parse("3 per minute"), limits.parse("1 per second")
    for strategy in [FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter]:
        limiter, name = strategy(storage), strategy.__name__
        equal([limiter.hit(three, name) for _ in range(4)], [True, True, True, False])
        holds(not limiter.test(three, name))
        equal(limiter.get_window_stats(three, name).remaining, 0)
        limiter.hit(second, name)
        eventually(lambda: limiter.hit(second, name), 30)
        limiter.clear(three, name)
        holds(limiter.test(three, name, cost=3))
        equal(limiter.get_window_stats(three, name).remaining, 3)
    storage.reset()


@case
def a_limit_holds_for_many_threads():
    storage = RedisStorage(f"redis://127.0.0.1:{PORT}")
    limiter, limit, allowed = MovingWindowRateLimiter(storage), limits.parse("25 per minute"), []

    def hit():
        for _ in range(10):
            allowed.append(limiter.hit(limit, "threads"))

    threads = [threading.Thread(target=hit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal((len(allowed), sum(allowed)), (80, 25))


@case
def a_queue_of_rq_is_emptied():
    queue = Queue("emptied", connection=r)
    jobs = [queue.enqueue(print, n) for n in range(10)]
    equal(queue.empty(), 10)
    equal((len(queue), r.exists(*[job.key for job in jobs])), (0, 0))


run()
