"""RQ against a server."""

import logging
import os
import sys
import threading
import time
from datetime import datetime, timedelta, timezone

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import redis
from rq import Queue, Retry, SimpleWorker
from rq.job import Dependency, Job
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry
from rq.scheduler import RQScheduler
from rq.timeouts import TimerDeathPenalty

from checks import PORT, case, equal, eventually, holds, run

import jobs

logging.getLogger("rq.worker").setLevel(logging.CRITICAL)
r = redis.Redis(port=PORT)
r.flushall()
queue = Queue("work", connection=r)


class Worker(SimpleWorker):
    """In this process, in any thread."""

    death_penalty_class = TimerDeathPenalty

    def _install_signal_handlers(self):
        pass


def work(**options):
    Worker([queue], connection=r).work(burst=True, logging_level="CRITICAL", **options)


@case
def jobs_are_done_in_their_order():
    queued = [queue.enqueue(jobs.add, n, n) for n in range(20)]
    equal((len(queue), queue.get_job_ids()[0]), (20, queued[0].id))
    work()
    equal([job.return_value(refresh=True) for job in queued], [2 * n for n in range(20)])
    equal((len(queue), len(FinishedJobRegistry(queue=queue))), (0, 20))
    equal(Job.fetch(queued[3].id, connection=r).get_status(), "finished")


@case
def failures_are_kept_and_tried_again():
    failed = queue.enqueue(jobs.fail, retry=Retry(max=2))
    work()
    equal((failed.get_status(), failed.id in FailedJobRegistry(queue=queue)), ("failed", True))
    holds("on purpose" in failed.latest_result().exc_string)
    FailedJobRegistry(queue=queue).requeue(failed.id)
    equal(len(queue), 1)
    work()


@case
def a_job_waits_for_another():
    first = queue.enqueue(jobs.add, 1, 2)
    second = queue.enqueue(jobs.add, 3, 4, depends_on=Dependency(jobs=[first]))
    equal(second.get_status(), "deferred")
    work()
    equal(second.return_value(refresh=True), 7)


@case
def jobs_are_cancelled_and_deleted():
    job, other = queue.enqueue(jobs.add, 1, 1), queue.enqueue_at(datetime.now(timezone.utc) + timedelta(hours=1), jobs.add, 1, 1)
    equal((other.id in ScheduledJobRegistry(queue=queue), queue.count), (True, 1))
    job.cancel()
    equal((job.get_status(), queue.count), ("canceled", 0))
    other.delete()
    equal(len(ScheduledJobRegistry(queue=queue)), 0)
    for n in range(10):
        queue.enqueue(jobs.add, n, n)
    equal((queue.empty(), queue.count), (10, 0))


@case
def many_at_once():
    with r.pipeline() as pipeline:
        queue.enqueue_many([Queue.prepare_data(jobs.add, (n, 1)) for n in range(100)], pipeline=pipeline)
        pipeline.execute()
    work()
    equal(queue.count, 0)


@case
def a_worker_waits_blocked_for_jobs():
    worker = Worker([queue], connection=redis.Redis(port=PORT))
    thread = threading.Thread(target=lambda: worker.work(max_jobs=1, logging_level="CRITICAL"), daemon=True)
    thread.start()
    eventually(lambda: any("blmove" in client["cmd"] or "blpop" in client["cmd"] or "brpop" in client["cmd"] for client in r.client_list()))
    started = time.monotonic()
    job = queue.enqueue(jobs.add, 20, 22)
    eventually(lambda: job.return_value(refresh=True) == 42)
    holds(time.monotonic() - started < 2)
    thread.join(5)


@case
def one_scheduler_has_the_lock():
    soon = queue.enqueue_in(timedelta(seconds=1), jobs.add, 2, 2)
    one, other = [RQScheduler([queue], connection=r) for _ in range(2)]
    equal((one.acquire_locks(), other.acquire_locks()), ({"work"}, set()))
    eventually(lambda: one.enqueue_scheduled_jobs() is None and queue.count == 1)
    one.release_locks()
    equal(other.acquire_locks(), {"work"})
    other.release_locks()
    work()
    equal(soon.return_value(refresh=True), 4)


run()
