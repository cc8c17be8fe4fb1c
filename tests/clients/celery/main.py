"""Celery against a server."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

import redis
from celery import chain, group

from checks import PORT, case, equal, raises, run
from tasks import add, fail, third_time

redis.Redis(port=PORT).flushall()
command = [sys.executable, "-m", "celery", "--workdir", HERE, "-A", "tasks", "worker", "--pool", "threads", "--concurrency", "2", "--loglevel", "WARNING", "--without-gossip", "--without-mingle"]  # fmt: skip
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
