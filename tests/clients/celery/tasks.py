"""The application, for the worker and for those who ask it."""

import os
import time

from celery import Celery

URL = f"redis://127.0.0.1:{os.environ['ALMANDINE_PORT']}"
app = Celery("tasks", broker=f"{URL}/0", backend=f"{URL}/1")
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    result_expires=100,
)


@app.task
def add(a, b):
    return a + b


@app.task
def sum_of(numbers):
    return sum(numbers)


@app.task
def slow(seconds):
    """Until it is told to stop."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if app.backend.client.get("stop"):
            return "stopped"
        time.sleep(0.05)


@app.task(bind=True, max_retries=3, default_retry_delay=0)
def third_time(self):
    if self.request.retries < 2:
        raise self.retry()
    return self.request.retries


@app.task
def fail():
    raise ValueError("on purpose")
