"""Copies all keys of one server to another: python3 move.py SOURCE TARGET

An address is HOST:PORT, redis://[USER:PASSWORD@]HOST[:PORT], rediss://… for TLS (with ?ssl_ca_certs=FILE and what else redis-py
takes), unix:///PATH, or the path of a Unix socket. Passwords may stand in the environment instead, where other users of the machine
do not see them: SOURCE_USER, SOURCE_PASSWORD, TARGET_USER, TARGET_PASSWORD.
"""
import os
import sys
import time

import redis

KEYS_PER_TRIP = 1000


def connect(address, role):
    """A function from a database's number to a client of the server at `address`."""
    if address.startswith("/"):
        address = "unix://" + address
    elif "://" not in address:
        address = "redis://" + address
    user, password = os.environ.get(role + "_USER"), os.environ.get(role + "_PASSWORD")
    secrets = {name: value for name, value in (("username", user), ("password", password)) if value}

    def client(db):
        pool = redis.ConnectionPool.from_url(address, **secrets)
        pool.connection_kwargs["db"] = db
        return redis.Redis(connection_pool=pool)

    return client


def expiry_times(reader):
    """The command that tells when a key expires, and whether it tells a moment: servers before Redis 7.0 tell what is left."""
    try:
        reader.execute_command("PEXPIRETIME", "")
        return "PEXPIRETIME", True
    except redis.ResponseError:
        return "PTTL", False


def move(reader, writer, progress):
    """Copies the keys of one database. Returns how many were moved, and how many were gone when they were read."""
    asked, absolute = expiry_times(reader)
    moved, gone, cursor = 0, 0, None
    while cursor != 0:
        cursor, keys = reader.scan(cursor or 0, count=KEYS_PER_TRIP)
        ask = reader.pipeline(transaction=False)
        for key in keys:
            ask.dump(key)
            ask.execute_command(asked, key)
        answers = ask.execute()
        tell = writer.pipeline(transaction=False)
        for key, value, expires_ms in zip(keys, answers[0::2], answers[1::2]):
            # It has expired or was deleted meanwhile.
            if value is None or expires_ms == -2:
                gone += 1
                continue
            tell.restore(key, max(expires_ms, 0), value, replace=True, absttl=absolute and expires_ms > 0)
            moved += 1
        tell.execute()
        progress(moved)
    return moved, gone


def show(db, total):
    """A function that shows on a terminal, once a second, how far a database is."""
    last = [time.monotonic()]

    def progress(moved):
        now = time.monotonic()
        if now - last[0] >= 1:
            last[0] = now
            print(f"db{db}: {moved} of about {total} keys", file=sys.stderr, flush=True)

    return progress


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = connect(sys.argv[1], "SOURCE"), connect(sys.argv[2], "TARGET")
    databases = {int(name[2:]): values["keys"] for name, values in source(0).info("keyspace").items()}
    for db, total in sorted(databases.items()):
        reader, writer = source(db), target(db)
        moved, gone = move(reader, writer, show(db, total))
        print(f"db{db}: {moved} keys moved, {gone} gone meanwhile, {writer.dbsize()} at the target")


if __name__ == "__main__":
    main()
