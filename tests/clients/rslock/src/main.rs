//! Locks of rslock, which are scripts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use rslock::{LockError, LockManager};

const TTL: Duration = Duration::from_secs(2);

fn address() -> String {
    format!("redis://127.0.0.1:{}/", std::env::var("ALMANDINE_PORT").unwrap_or_default())
}

fn manager() -> LockManager {
    LockManager::new(vec![address()])
}

fn is(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// A lock is held by one, released by its holder alone, and free again.
async fn one_holds_it() -> Result<(), String> {
    let (mut first, mut second) = (manager(), manager());
    first.set_retry(1, Duration::from_millis(10));
    second.set_retry(1, Duration::from_millis(10));
    let lock = first.lock("one", TTL).await.map_err(|error| error.to_string())?;
    is(second.lock("one", TTL).await.is_err(), "it is held")?;
    is(first.is_freed(&lock).await.is_ok_and(|freed| !freed), "it is there")?;
    first.unlock(&lock).await;
    is(matches!(first.is_freed(&lock).await, Err(LockError::RedisKeyNotFound)), "it is gone")?;
    let next = second.lock("one", TTL).await.map_err(|error| error.to_string())?;
    first.unlock(&lock).await;
    is(second.is_freed(&next).await.is_ok_and(|freed| !freed), "another one's is not released")?;
    second.unlock(&next).await;
    Ok(())
}

/// What is extended lives for longer, and what is not ends.
async fn it_ends_unless_it_is_extended() -> Result<(), String> {
    let manager = manager();
    let lock = manager.lock("ends", Duration::from_millis(600)).await.map_err(|error| error.to_string())?;
    let lock = manager.extend(&lock, TTL).await.map_err(|error| error.to_string())?;
    tokio::time::sleep(Duration::from_millis(900)).await;
    is(manager.is_freed(&lock).await.is_ok_and(|freed| !freed), "it was extended")?;
    tokio::time::sleep(TTL).await;
    is(manager.is_freed(&lock).await.is_err(), "it has ended")?;
    is(manager.extend(&lock, TTL).await.is_err(), "what has ended is not extended")
}

/// Of many that want it one is inside at a time; one that works for longer than it lives renews it.
async fn many_want_it() -> Result<(), String> {
    let (inside, entered) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let (inside, entered) = (Arc::clone(&inside), Arc::clone(&entered));
            tokio::spawn(async move {
                let manager = manager();
                for _ in 0..5 {
                    let guard = manager.acquire("many", TTL).await.map_err(|error| error.to_string())?;
                    is(inside.fetch_add(1, SeqCst) == 0, "one is inside")?;
                    entered.fetch_add(1, SeqCst);
                    inside.fetch_sub(1, SeqCst);
                    guard.release().await;
                }
                Ok::<(), String>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(|error| error.to_string())??;
    }
    is(entered.load(SeqCst) == 30, "each has entered each time")?;
    let other = manager();
    let work = async || {
        tokio::time::sleep(TTL + TTL / 2).await;
        other.lock("many", TTL).await.is_err()
    };
    let was_held = manager().using(b"many", TTL, work).await.map_err(|error| error.to_string())?;
    is(was_held, "it was held for as long as the work took")
}

#[tokio::main]
async fn main() {
    let (mut passed, mut failed) = (0, 0);
    let mut count = |name: &str, outcome: Result<(), String>| match outcome {
        Ok(()) => {
            passed += 1;
            println!("ok: {name}");
        }
        Err(what) => {
            failed += 1;
            println!("FAILED: {name}\n    {what}");
        }
    };
    count("one holds it", one_holds_it().await);
    count("it ends unless it is extended", it_ends_unless_it_is_extended().await);
    count("many want it", many_want_it().await);
    println!("{passed} passed, {failed} failed");
    std::process::exit(i32::from(failed > 0));
}
