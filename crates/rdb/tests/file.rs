//! Files: golden bytes, every prefix and every flipped bit of one, and what redis-server and redis-check-rdb think of them.

#[path = "../../datatypes/tests/oracle/mod.rs"]
mod oracle;

#[path = "file/contents.rs"]
mod contents;
#[path = "file/damage.rs"]
mod damage;
#[path = "file/golden.rs"]
mod golden;
#[path = "file/redis.rs"]
mod redis;
