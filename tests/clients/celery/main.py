"""Celery against a server."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

import redis
from celery import chain, chord, group

from checks import PORT, case, equal, eventually, holds, raises, run
from tasks import add, app, fail, slow, sum_of, third_time

redis.Redis(port=PORT).flushall()
command = [sys.executable, "-m", "celery", "--workdir", HERE, "-A", "tasks", "worker", "--pool", "threads", "--concurrency", "2", "--loglevel", "WARNING"]  # fmt: skip
worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open("worker.log", "w"))


@case
def tasks_have_results():
    equal(add.delay(2, 3).get(timeout=30), 5)
    equal([result.get(timeout=30) for result in [add.delay(n, n) for n in range(50)]], [2 * n for n in range(50)])


@case
def groups_and_chains():
    equal(group(add.s(n, 1) for n in range(10))().get(timeout=30), list(range(1, 11)))
    equal(chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=30), 10)


@case
def chords():
    equal(chord(add.s(n, n) for n in range(10))(sum_of.s()).get(timeout=30), 90)


@case
def workers_are_asked_and_told():
    eventually(lambda: app.control.ping(timeout=2) != [], 30)
    (name,) = app.control.inspect(timeout=10).registered()
    holds("tasks.add" in app.control.inspect(timeout=10).registered()[name])
    running = slow.delay(60)
    eventually(lambda: any(task["id"] == running.id for task in app.control.inspect(timeout=10).active()[name]), 30)
    waiting = add.apply_async((1, 1), countdown=600)
    eventually(lambda: len(app.control.inspect(timeout=10).scheduled()[name]) == 1, 30)
    waiting.revoke()
    eventually(lambda: waiting.id in app.control.inspect(timeout=10).revoked()[name], 30)
    app.backend.client.set("stop", 1)
    equal(running.get(timeout=30), "stopped")


@case
def what_a_worker_that_died_held_comes_back():
    # A worker of another application takes a message, acknowledges it late, and dies.
    queue = "late"
    lost = add.apply_async((20, 22), queue=queue)
    with app.connection() as connection:
        channel = connection.channel()
        message = channel.basic_get(queue)
        equal(message.headers["id"], lost.id)
        unacknowledged = redis.Redis(port=PORT, db=0)
        equal(unacknowledged.hlen("unacked"), unacknowledged.zcard("unacked_index"))
        channel.qos.restore_visible(start=0, num=10)
    with app.connection() as connection:
        channel = connection.channel()
        again = channel.basic_get(queue)
        holds(again is not None)
        equal(again.headers["id"], lost.id)
        channel.basic_ack(again.delivery_tag)


@case
def failures_and_retries():
    raises(ValueError, "on purpose", lambda: fail.delay().get(timeout=30))
    equal(third_time.delay().get(timeout=30), 2)
    equal(add.apply_async((1, 1), countdown=1).get(timeout=30), 2)


@case
def the_worker_had_no_trouble():
    equal(worker.poll(), None)
    worker.terminate()
    worker.wait(20)
    log = open("worker.log").read()
    equal([line for line in log.splitlines() if "redis.exceptions" in line or "CRITICAL" in line], [])


try:
    run()
finally:
    worker.kill()
