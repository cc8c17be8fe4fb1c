"""arq against a server."""

import asyncio
import logging
import os
import sys
from datetime import timedelta

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from arq import create_pool
from arq.connections import RedisSettings
from arq.jobs import JobStatus
from arq.worker import Retry, Worker

from checks import PORT, case, equal, holds, run

# Jobs that fail are wanted here.
logging.disable(logging.CRITICAL)
SETTINGS = RedisSettings(port=PORT)


async def add(context, a, b):
    return a + b


async def third_time(context):
    if context["job_try"] < 3:
        raise Retry(defer=0.1)
    return context["job_try"]


async def fail(context):
    raise ValueError("on purpose")


async def sleep(context):
    await asyncio.sleep(30)


def with_worker(body, burst=True):
    async def work():
        pool = await create_pool(SETTINGS)
        await pool.flushall()
        worker = Worker([add, third_time, fail, sleep], redis_settings=SETTINGS, burst=burst, poll_delay=0.05, handle_signals=False, allow_abort_jobs=True, health_check_interval=1)
        try:
            await body(pool, worker)
        finally:
            await worker.close()
            await pool.aclose()

    asyncio.run(work())


@case
def jobs_have_results():
    async def body(pool, worker):
        jobs = [await pool.enqueue_job("add", n, n) for n in range(50)]
        equal((await jobs[0].status(), len(await pool.queued_jobs())), (JobStatus.queued, 50))
        equal(await worker.run_check(), 50)
        equal([await job.result(timeout=5) for job in jobs], [2 * n for n in range(50)])
        equal(len(await pool.all_job_results()), 50)

    with_worker(body)


@case
def jobs_are_unique_by_their_name():
    async def body(pool, worker):
        equal((await pool.enqueue_job("add", 1, 1, _job_id="one") is None, await pool.enqueue_job("add", 1, 1, _job_id="one")), (False, None))
        equal(await worker.run_check(), 1)

    with_worker(body)


@case
def jobs_for_later_and_retries():
    async def body(pool, worker):
        later = await pool.enqueue_job("add", 1, 2, _defer_by=timedelta(seconds=0.3))
        again = await pool.enqueue_job("third_time")
        equal(await later.status(), JobStatus.deferred)
        await worker.async_run()
        equal((await later.result(timeout=5), await again.result(timeout=5)), (3, 3))

    with_worker(body)


@case
def failures_and_aborts():
    async def body(pool, worker):
        failed, slow = await pool.enqueue_job("fail"), await pool.enqueue_job("sleep")
        running = asyncio.create_task(worker.async_run())
        try:
            await failed.result(timeout=5)
        except ValueError as error:
            equal(str(error), "on purpose")
        else:
            raise AssertionError("no error")
        while await slow.status() != JobStatus.in_progress:
            await asyncio.sleep(0.01)
        equal(await slow.abort(timeout=5), True)
        holds(b"j_complete" in await pool.get("arq:queue:health-check"))
        running.cancel()

    with_worker(body, burst=False)


run()
