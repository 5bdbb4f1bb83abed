"""Timelines: what the host and the device did in a few calls of a loop, who waited for whom, and how long.

>>> from brrr.timing.cpu_queue import CpuQueue
>>> from brrr.tracing.tracer import trace
>>> with CpuQueue() as queue:
...     found = trace(lambda: queue.submit(sorted, range(1000)), device=queue, calls=3)
>>> found.calls, found.lanes
(3, ('python', 'launch', 'worker'))
"""
