"""Both layers of Django Channels against a server."""

import asyncio
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from channels_redis.core import RedisChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer

from channels.exceptions import ChannelFull
from checks import HOST, PORT, add, equal, holds, run


def layer(kind):
    return kind(hosts=[f"redis://{HOST}:{PORT}/0"], prefix="site")


async def nothing_comes(layer, channel):
    try:
        message = await asyncio.wait_for(layer.receive(channel), 0.2)
    except asyncio.TimeoutError:
        return True
    raise AssertionError(f"{message!r} came")


async def a_message_to_a_channel(one, other):
    channel = await one.new_channel()
    for n in range(100):
        await other.send(channel, {"type": "number", "n": n})
    for n in range(100):
        equal(await asyncio.wait_for(one.receive(channel), 5), {"type": "number", "n": n})


async def a_message_to_a_group(one, other):
    members = [await layer.new_channel() for layer in (one, one, other)]
    for layer, channel in zip((one, one, other), members):
        await layer.group_add("room", channel)
    outsider = await other.new_channel()
    await one.group_send("room", {"type": "chat", "text": "hello"})
    for layer, channel in zip((one, one, other), members):
        equal(await asyncio.wait_for(layer.receive(channel), 5), {"type": "chat", "text": "hello"})
    holds(await nothing_comes(other, outsider))
    await one.group_discard("room", members[0])
    await other.group_send("room", {"type": "chat", "text": "again"})
    equal((await asyncio.wait_for(one.receive(members[1]), 5))["text"], "again")
    holds(await nothing_comes(one, members[0]))


async def a_channel_has_a_capacity(one, other):
    channel = await one.new_channel()
    for n in range(100):
        await other.send(channel, {"type": "number", "n": n})
    try:
        await other.send(channel, {"type": "number", "n": 100})
    except ChannelFull:
        pass
    else:
        raise AssertionError("the channel took 101 messages")
    await one.group_add("room", channel)
    # A group passes by a channel that is full.
    await other.group_send("room", {"type": "chat"})
    for n in range(100):
        equal(await asyncio.wait_for(one.receive(channel), 5), {"type": "number", "n": n})
    holds(await nothing_comes(one, channel))


async def flush_forgets_all(one, other):
    channel = await one.new_channel()
    await one.group_add("room", channel)
    await one.flush()
    await other.group_send("room", {"type": "chat"})
    holds(await nothing_comes(one, channel))


CASES = {
    RedisPubSubChannelLayer: (a_message_to_a_channel, a_message_to_a_group, flush_forgets_all),
    RedisChannelLayer: (a_message_to_a_channel, a_message_to_a_group, a_channel_has_a_capacity, flush_forgets_all),
}
for kind, case in [(kind, case) for kind, cases in CASES.items() for case in cases]:

    async def work(kind=kind, case=case):
        one, other = layer(kind), layer(kind)
        await case(one, other)
        await one.flush()
        await other.flush()

    add(f"{kind.__name__}: {case.__name__.replace('_', ' ')}", lambda work=work: asyncio.run(work()))
run()
