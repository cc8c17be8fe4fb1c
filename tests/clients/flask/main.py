"""Flask's sessions and cache against a server."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import flask
import redis
from flask_caching import Cache
from flask_session import Session

from checks import HOST, PORT, case, equal, holds, run

r = redis.Redis(port=PORT)
r.flushall()
app = flask.Flask("app")
app.config.update(
    SESSION_TYPE="redis", SESSION_REDIS=r, SESSION_PERMANENT=True, PERMANENT_SESSION_LIFETIME=100,
    CACHE_TYPE="RedisCache", CACHE_REDIS_URL=f"redis://{HOST}:{PORT}/2", CACHE_KEY_PREFIX="cache:",
)  # fmt: skip
Session(app)
cache = Cache(app)
computed = []


@app.get("/visit")
def visit():
    flask.session["visits"] = flask.session.get("visits", 0) + 1
    return str(flask.session["visits"])


@app.get("/leave")
def leave():
    flask.session.clear()
    return "bye"


@app.get("/slow/<int:n>")
@cache.cached(timeout=50)
def slow(n):
    computed.append(n)
    return str(n * n)


@cache.memoize(50)
def square(n):
    computed.append(n)
    return n * n


@case
def a_session_lives_in_the_server():
    one, other = app.test_client(), app.test_client()
    equal([one.get("/visit").text for _ in range(3)] + [other.get("/visit").text], ["1", "2", "3", "1"])
    keys = list(r.scan_iter("session:*"))
    equal(len(keys), 2)
    holds(all(90 < r.ttl(key) <= 100 for key in keys))
    one.get("/leave")
    equal((len(list(r.scan_iter("session:*"))), one.get("/visit").text), (1, "1"))


@case
def pages_and_functions_are_cached():
    client = app.test_client()
    equal([client.get("/slow/7").text for _ in range(3)], ["49", "49", "49"])
    with app.app_context():
        equal(([square(9) for _ in range(3)], computed), ([81, 81, 81], [7, 9]))
        cache.delete_memoized(square)
        equal((square(9), computed), (81, [7, 9, 9]))
        equal((cache.set_many({"a": 1, "b": [2]}), cache.get_many("a", "b", "c")), (["a", "b"], [1, [2], None]))
        equal((cache.add("a", 2), cache.get("a"), cache.delete("a"), cache.has("a"), cache.inc("n") if hasattr(cache, "inc") else 1), (False, 1, True, False, 1))
        cache.clear()
        equal(cache.get("b"), None)


run()
