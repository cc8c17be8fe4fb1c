"""Compares a sample of the keys of two servers' database 0: python3 same.py SOURCE TARGET, with addresses and passwords as for move.py."""
import random
import sys

from move import connect

READ = {
    b"string": lambda r, k: r.get(k),
    b"hash": lambda r, k: r.hgetall(k),
    b"set": lambda r, k: r.smembers(k),
    b"zset": lambda r, k: r.zrange(k, 0, -1, withscores=True),
    b"list": lambda r, k: r.lrange(k, 0, -1),
    b"stream": lambda r, k: (r.xrange(k), r.xinfo_groups(k)),
}
if len(sys.argv) != 3:
    sys.exit(__doc__)
source, target = connect(sys.argv[1], "SOURCE")(0), connect(sys.argv[2], "TARGET")(0)
keys = list(source.scan_iter(count=1000))
different = 0
for key in random.sample(keys, min(10000, len(keys))):
    read = READ[source.type(key)]
    near = abs(source.pttl(key) - target.pttl(key)) < 5000
    if source.type(key) != target.type(key) or read(source, key) != read(target, key) or not near:
        print("differs:", key)
        different += 1
print(f"{different} of {min(10000, len(keys))} keys differ")
sys.exit(different > 0)
