"""Django's cache and sessions against a server."""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import django
from django.conf import settings

from checks import HOST, PORT, add, equal, holds, run

URL = f"redis://{HOST}:{PORT}/1"
settings.configure(
    SECRET_KEY="secret",
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    CACHES={
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": URL, "KEY_PREFIX": "own"},
        "django-redis": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": URL,
            "KEY_PREFIX": "other",
            "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"},
        },
    },
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore
from django.core.cache import caches


def values(cache):
    cache.set("a", {"any": ["object", 1]}, timeout=60)
    equal((cache.get("a"), cache.get("none"), cache.get("none", "default")), ({"any": ["object", 1]}, None, "default"))
    equal((cache.add("a", 1), cache.add("b", 2)), (False, True))
    equal((cache.get_or_set("c", lambda: 3), cache.get("c"), cache.has_key("c"), "none" in cache), (3, 3, True, False))
    cache.set_many({"x": 1, "y": "2", "z": None})
    equal(cache.get_many(["x", "y", "z", "none"]), {"x": 1, "y": "2", "z": None})
    equal((cache.delete("x"), bool(cache.delete("x")), cache.delete_many(["y", "z"]) in (None, 2)), (True, False, True))
    equal((cache.touch("a", 100), cache.touch("none", 100)), (True, False))
    cache.set("never", 1, timeout=None)
    cache.set("version", 1, version=2)
    equal((cache.get("version"), cache.get("version", version=2), cache.incr_version("version", version=2), cache.get("version", version=3)), (None, 1, 3, 1))
    cache.set("gone", 1, timeout=0)
    equal(cache.get("gone"), None)


def counters(cache):
    cache.set("n", 5, timeout=100)
    equal((cache.incr("n"), cache.incr("n", 10), cache.decr("n", 3), cache.get("n")), (6, 16, 13, 13))


def what_django_redis_adds():
    cache = caches["django-redis"]
    cache.set_many({f"item:{n}": n for n in range(300)})
    equal((len(cache.keys("item:*")), len(list(cache.iter_keys("item:*")))), (300, 300))
    cache.set("t", 1, timeout=100)
    holds(90 < cache.ttl("t") <= 100 and cache.pttl("t") > 90_000)
    equal((cache.persist("t"), cache.ttl("t"), cache.expire("t", 50), cache.ttl("none")), (True, None, True, 0))
    equal((cache.set("nx", 1, nx=True), cache.set("nx", 2, nx=True), cache.get("nx")), (True, False, 1))
    equal(cache.delete_pattern("item:1*"), 111)
    equal((cache.sadd("s", 1, 2), cache.smembers("s"), cache.scard("s")), (2, {1, 2}, 2))


def locks_of_django_redis():
    cache = caches["django-redis"]
    with cache.lock("lock", timeout=10):
        equal(cache.lock("lock", timeout=10).acquire(blocking=False), False)
    lock = cache.lock("lock", timeout=10)
    equal(lock.acquire(blocking=False), True)
    lock.release()
    # One command, not a reading and a writing.
    cache.set("n", 0, timeout=None)
    threads = [threading.Thread(target=lambda: [cache.incr("n") for _ in range(200)]) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    equal(cache.get("n"), 800)


def sessions():
    session = SessionStore()
    session["user"] = 7
    session.set_expiry(100)
    session.create()
    again = SessionStore(session_key=session.session_key)
    equal((again["user"], again.exists(session.session_key)), (7, True))
    again.flush()
    equal(SessionStore(session_key=session.session_key).get("user"), None)


def clear(cache):
    cache.set("a", 1)
    cache.clear()
    equal(cache.get("a"), None)


def expiry(cache):
    cache.set("short", 1, timeout=1)
    equal(cache.get("short"), 1)
    time.sleep(1.1)
    equal(cache.get("short"), None)


for name in ("default", "django-redis"):
    for function in (clear, values, counters, expiry):
        add(f"{name}: {function.__name__}", lambda function=function, name=name: function(caches[name]))
add("django-redis: what it adds", what_django_redis_adds)
add("django-redis: locks and counters of several threads", locks_of_django_redis)
add("sessions", sessions)
run()
