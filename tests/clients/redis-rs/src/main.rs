//! redis-rs against a server.

mod run;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::caching::CacheConfig;
use redis::streams::{StreamRangeReply, StreamReadOptions, StreamReadReply};
use redis::{
    AsyncCommands, AsyncConnectionConfig, Client, Commands, Direction, ExpireOption, Pipeline, ProtocolVersion, RedisResult,
    Script, cmd, pipe,
};

use run::{equal, holds, is_reference};

fn synchronous(client: &Client) -> RedisResult<()> {
    let mut c = client.get_connection()?;
    let _: () = Commands::set(&mut c, "a", 42)?;
    equal(Commands::incr::<_, _, i64>(&mut c, "a", 8)?, 50);
    equal(Commands::mget::<_, Vec<Option<i64>>>(&mut c, &["a", "missing"])?, vec![Some(50), None]);
    equal(pipe().atomic().incr("t", 1).ignore().incr("t", 1).query::<(i64,)>(&mut c)?, (2,));
    let added: (i64,) = redis::transaction(&mut c, &["shared"], |c, pipe| {
        let old: Option<i64> = Commands::get(c, "shared")?;
        pipe.incr("shared", old.unwrap_or(10)).query(c)
    })?;
    equal(added, (10,));
    let keys = Commands::scan::<String>(&mut c)?.collect::<RedisResult<BTreeSet<_>>>()?;
    equal(keys, ["a", "shared", "t"].map(str::to_owned).into());
    let mut listener = client.get_connection()?;
    let mut listener = listener.as_pubsub();
    listener.set_read_timeout(Some(Duration::from_secs(5)))?;
    listener.subscribe("news")?;
    listener.psubscribe("n*")?;
    equal(Commands::publish::<_, _, i64>(&mut c, "news", "hello")?, 2);
    for _ in 0..2 {
        equal(listener.get_message()?.get_payload::<String>()?, "hello".to_owned());
    }
    Ok(())
}

async fn every_type(mut c: MultiplexedConnection, client: &Client) -> RedisResult<()> {
    let version =
        if client.get_connection_info().redis_settings().protocol() == ProtocolVersion::RESP3 { "resp=3" } else { "resp=2" };
    holds(cmd("CLIENT").arg("INFO").query_async::<String>(&mut c).await?.contains(version), version);
    equal(
        c.set_options::<_, _, bool>("a", 1, redis::SetOptions::default().with_expiration(redis::SetExpiry::EX(100))).await?,
        true,
    );
    equal(c.ttl::<_, i64>("a").await? > 90, true);
    equal(c.set_nx::<_, _, bool>("a", 2).await?, false);
    equal(c.incr::<_, _, f64>("f", 1.5).await?, 1.5);
    let _: () = c.set("binary", &[0u8, 255, 13, 10]).await?;
    equal(c.get::<_, Vec<u8>>("binary").await?, vec![0u8, 255, 13, 10]);
    let _: () = c.hset_multiple("h", &[("a", 1), ("b", 2)]).await?;
    equal(c.hgetall::<_, HashMap<String, i64>>("h").await?, HashMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
    if !is_reference() {
        equal(c.hexpire::<_, _, Vec<i64>>("h", 100, ExpireOption::NONE, "a").await?, vec![1]);
    }
    equal(c.rpush::<_, _, i64>("l", &[1, 2, 3]).await?, 3);
    equal(c.lrange::<_, Vec<i64>>("l", 0, -1).await?, vec![1, 2, 3]);
    equal(c.lmove::<_, _, i64>("l", "m", Direction::Left, Direction::Right).await?, 1);
    equal(c.sadd::<_, _, i64>("s", &["a", "b"]).await?, 2);
    equal(c.smembers::<_, BTreeSet<String>>("s").await?, ["a", "b"].map(str::to_owned).into());
    equal(c.zadd_multiple::<_, _, _, i64>("z", &[(1.0, "a"), (2.5, "b")]).await?, 2);
    equal(c.zrange_withscores::<_, Vec<(String, f64)>>("z", 0, -1).await?, vec![("a".to_owned(), 1.0), ("b".to_owned(), 2.5)]);
    equal(c.zscore::<_, _, f64>("z", "b").await?, 2.5);
    let id: String = c.xadd("x", "*", &[("f", "v")]).await?;
    let _: () = c.xgroup_create("x", "g", "0").await?;
    let options = StreamReadOptions::default().group("g", "c").count(10);
    let read: StreamReadReply = c.xread_options(&["x"], &[">"], &options).await?;
    equal(read.keys[0].ids[0].get::<String>("f"), Some("v".to_owned()));
    equal(c.xack::<_, _, _, i64>("x", "g", &[&id]).await?, 1);
    equal(c.xrange_all::<_, StreamRangeReply>("x").await?.ids.len(), 1);
    equal(c.geo_add::<_, _, i64>("g", (redis::geo::Coord::lon_lat(13.361389, 38.115556), "Palermo")).await?, 1);
    equal(c.geo_hash::<_, _, Vec<String>>("g", "Palermo").await?, vec!["sqc8b49rny0".to_owned()]);
    equal(c.pfadd::<_, _, bool>("p", &["a", "b"]).await?, true);
    equal(c.setbit::<_, bool>("b", 7, true).await?, false);
    let mut seen = c.scan_match::<_, String>("*").await?;
    let mut count = 0;
    while seen.next().await.is_some() {
        count += 1;
    }
    equal(count, 12);
    Ok(())
}

async fn many_at_once(c: MultiplexedConnection, _: &Client) -> RedisResult<()> {
    let add = |mut c: MultiplexedConnection| async move { c.incr::<_, _, i64>("n", 1).await };
    let sums = join_all((0..1000).map(|_| add(c.clone()))).await.into_iter().collect::<RedisResult<BTreeSet<_>>>()?;
    equal(sums, (1..=1000).collect());
    Ok(())
}

async fn transactions(mut c: MultiplexedConnection, client: &Client) -> RedisResult<()> {
    equal(pipe().atomic().set("t", 1).ignore().incr("t", 1).query_async::<(i64,)>(&mut c).await?, (2,));
    let failed = pipe().atomic().incr("t", 1).lpush("t", "x").query_async::<(i64, i64)>(&mut c).await;
    holds(
        failed.is_err_and(|e| e.to_string().contains("wrong kind") || e.to_string().contains("WRONGTYPE")),
        "an error within a transaction",
    );
    // WATCH belongs to a connection, so this one is not shared.
    let mut own = client.get_multiplexed_async_connection().await?;
    cmd("WATCH").arg("t").exec_async(&mut own).await?;
    let _: () = c.set("t", 10).await?;
    equal(pipe().atomic().incr("t", 1).query_async::<Option<(i64,)>>(&mut own).await?, None);
    Ok(())
}

async fn scripts(mut c: MultiplexedConnection, client: &Client) -> RedisResult<()> {
    let (fast, slow) =
        (Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])"), Script::new("return {KEYS[1], #ARGV, {ok = 'fine'}}"));
    // The first call hears NOSCRIPT, loads it, and calls again.
    for sum in [3, 6] {
        equal(fast.key("n").arg(3).invoke_async::<i64>(&mut c).await?, sum);
    }
    equal(slow.key("k").arg(1).arg(2).invoke_async::<(String, i64, String)>(&mut c).await?, ("k".into(), 2, "fine".into()));
    let mut many = pipe();
    (0..100).for_each(|n| _ = many.invoke_script(fast.key(format!("{{p}}{n}")).arg(n)));
    fast.prepare_invoke().load_async(&mut c).await?;
    equal(many.query_async::<Vec<i64>>(&mut c).await?, (0..100).collect());
    let failed =
        Script::new("return redis.error_reply('LIMIT too many')").invoke_async::<_, ()>(&mut c).await.expect_err("an error");
    equal((failed.code(), failed.detail()), (Some("LIMIT"), Some("too many")));
    let mut plain = client.get_connection()?;
    equal(fast.key("n").arg(4).invoke::<i64>(&mut plain)?, 10);
    let library =
        "#!lua name=sums\nredis.register_function('add', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)";
    cmd("FUNCTION").arg(&["LOAD", "REPLACE", library]).exec_async(&mut c).await?;
    equal(cmd("FCALL").arg(&["add", "1", "n", "5"]).query_async::<i64>(&mut c).await?, 15);
    Ok(())
}

async fn publish_subscribe(mut c: MultiplexedConnection, client: &Client) -> RedisResult<()> {
    let mut listener = client.get_async_pubsub().await?;
    listener.subscribe("news").await?;
    listener.psubscribe("n*").await?;
    equal(c.publish::<_, _, i64>("news", "hello").await?, 2);
    let mut messages = listener.on_message();
    for _ in 0..2 {
        let message = messages.next().await.expect("the connection lives");
        equal(message.get_payload::<String>()?, "hello".to_owned());
    }
    Ok(())
}

async fn blocking(mut c: MultiplexedConnection, client: &Client) -> RedisResult<()> {
    // The library ends a command after half a second unless told otherwise.
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    let mut w = client.get_multiplexed_async_connection_with_config(&patient).await?;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let push = pipe().rpush("q", &["a", "b", "c"]).clone();
    equal(waited(w.blpop::<_, Vec<String>>(&["none", "q"], 5.0), &push, &mut c).await?, words(&["q", "a"]));
    c.del::<_, ()>("q").await?;
    equal(waited(w.brpop::<_, Vec<String>>("q", 5.0), &push, &mut c).await?, words(&["q", "c"]));
    c.del::<_, ()>("q").await?;
    equal(waited(w.blmove::<_, _, String>("q", "m", Direction::Left, Direction::Right, 5.0), &push, &mut c).await?, "a".to_owned());
    c.del::<_, ()>("q").await?;
    equal(waited(w.brpoplpush::<_, _, String>("q", "m", 5.0), &push, &mut c).await?, "c".to_owned());
    c.del::<_, ()>("q").await?;
    let popped = waited(w.blmpop::<_, (String, Vec<String>)>(5.0, 1, "q", Direction::Left, 2), &push, &mut c).await?;
    equal(popped, ("q".to_owned(), words(&["a", "b"])));
    let add = pipe().zadd_multiple("z", &[(1.0, "a"), (2.5, "b")]).clone();
    type Member = (String, String, f64);
    equal(waited(w.bzpopmin::<_, Member>("z", 5.0), &add, &mut c).await?, ("z".to_owned(), "a".to_owned(), 1.0));
    c.del::<_, ()>("z").await?;
    equal(waited(w.bzpopmax::<_, Member>("z", 5.0), &add, &mut c).await?, ("z".to_owned(), "b".to_owned(), 2.5));
    c.del::<_, ()>("z").await?;
    type Members = (String, Vec<(String, f64)>);
    equal(waited(w.bzmpop_min::<_, Members>(5.0, "z", 1), &add, &mut c).await?, ("z".to_owned(), vec![("a".to_owned(), 1.0)]));
    let append = pipe().xadd("x", "*", &[("f", "v")]).clone();
    let options = StreamReadOptions::default().block(5000);
    let read: StreamReadReply = waited(w.xread_options(&["x"], &["$"], &options), &append, &mut c).await?;
    equal(read.keys[0].ids[0].get::<String>("f"), Some("v".to_owned()));
    c.xgroup_create::<_, _, _, ()>("x", "g", "$").await?;
    let options = StreamReadOptions::default().block(5000).group("g", "c");
    let read: StreamReadReply = waited(w.xread_options(&["x"], &[">"], &options), &append, &mut c).await?;
    equal(read.keys[0].ids.len(), 1);
    c.del::<_, ()>("q").await?;
    equal(w.blpop::<_, Option<Vec<String>>>("q", 0.2).await?, None);
    Ok(())
}

/// What a call returns that must wait for what another connection does a tenth of a second later.
async fn waited<T>(call: impl Future<Output = RedisResult<T>>, later: &Pipeline, c: &mut MultiplexedConnection) -> RedisResult<T> {
    let started = Instant::now();
    let (result, done) = tokio::join!(call, async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        later.exec_async(c).await
    });
    done?;
    holds(started.elapsed() > Duration::from_millis(50), "it did not wait");
    result
}

/// What only RESP3 has: pushes on the connection that also does other things, and copies that are invalidated.
async fn pushes_and_caching(mut c: MultiplexedConnection, client: &Client) -> RedisResult<()> {
    let (sender, mut pushes) = tokio::sync::mpsc::unbounded_channel();
    let config = redis::aio::ConnectionManagerConfig::new().set_push_sender(sender).set_automatic_resubscription();
    let mut manager = client.get_connection_manager_with_config(config).await?;
    manager.subscribe("news").await?;
    equal(manager.set::<_, _, bool>("k", "v").await?, true);
    equal(c.publish::<_, _, i64>("news", "hello").await?, 1);
    let mut message = pushes.recv().await.expect("the manager lives");
    while message.kind != redis::PushKind::Message {
        message = pushes.recv().await.expect("the manager lives");
    }
    equal(message.data.pop(), Some(redis::Value::BulkString(b"hello".to_vec())));

    let config = AsyncConnectionConfig::new().set_cache_config(CacheConfig::default());
    let mut cached = client.get_multiplexed_async_connection_with_config(&config).await?;
    let _: () = c.set("c", 1).await?;
    equal(cached.get::<_, i64>("c").await?, 1);
    cmd("CONFIG").arg("RESETSTAT").exec_async(&mut c).await?;
    for _ in 0..100 {
        equal(cached.get::<_, i64>("c").await?, 1);
    }
    equal(cached.get_cache_statistics().map(|statistics| statistics.hit), Some(100));
    let statistics: String = cmd("INFO").arg("commandstats").query_async(&mut c).await?;
    holds(!statistics.contains("cmdstat_get:"), "the server was asked");
    let _: () = c.set("c", 2).await?;
    let started = Instant::now();
    while cached.get::<_, i64>("c").await? != 2 {
        holds(started.elapsed() < Duration::from_secs(5), "the copy was not invalidated");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

#[tokio::main]
async fn main() {
    let mut run = run::Run::default();
    for protocol in ["resp2", "resp3"] {
        run.synchronous(protocol, "synchronous", synchronous);
        run.one(protocol, "every type", every_type).await;
        run.one(protocol, "many at once", many_at_once).await;
        run.one(protocol, "transactions", transactions).await;
        run.one(protocol, "scripts and functions", scripts).await;
        run.one(protocol, "publish and subscribe", publish_subscribe).await;
        run.one(protocol, "blocking", blocking).await;
    }
    run.one("resp3", "pushes and client-side caching", pushes_and_caching).await;
    run.end();
}
