"""Copies all keys of one server to another: python3 move.py SOURCE TARGET, each host:port."""
import sys
import redis

def connect(address):
    host, port = address.rsplit(":", 1)
    return lambda db: redis.Redis(host=host, port=int(port), db=db)

source, target = connect(sys.argv[1]), connect(sys.argv[2])
for db in sorted(int(name[2:]) for name in source(0).info("keyspace")):
    reader, writer, moved, gone = source(db), target(db), 0, 0
    cursor = None
    while cursor != 0:
        cursor, keys = reader.scan(cursor or 0, count=1000)
        ask = reader.pipeline(transaction=False)
        for key in keys:
            ask.dump(key)
            ask.pexpiretime(key)
        answers = ask.execute()
        tell = writer.pipeline(transaction=False)
        for key, value, expires_ms in zip(keys, answers[0::2], answers[1::2]):
            if value is None:  # it has expired or was deleted meanwhile
                gone += 1
                continue
            tell.restore(key, max(expires_ms, 0), value, replace=True, absttl=expires_ms > 0)
            moved += 1
        tell.execute()
    print(f"db{db}: {moved} keys moved, {gone} gone meanwhile, {writer.dbsize()} at the target")
