//! Closed load: as much as the server takes.

use std::time::Duration;

use super::run::{MEASURE, Report, STOP, Thread, WARM_UP, writable};

/// Keeps `in_flight` batches on every connection until the run stops or the quota is used up.
pub(super) fn drive(mut thread: Thread<'_>, in_flight: usize, spin: bool) -> Result<Report, String> {
    let mut events = Vec::with_capacity(512);
    let timeout = if spin { Duration::ZERO } else { Duration::from_millis(50) };
    let mut phase = WARM_UP;
    let now = thread.now_ns();
    for index in 0..thread.connections.len() {
        fill(&mut thread, index, in_flight, now)?;
    }
    loop {
        let current = thread.shared.phase();
        if current != phase {
            phase = current;
            if phase == STOP {
                break;
            }
            thread.begin_measurement();
        }
        thread.wait(&mut events, timeout)?;
        for event in events.drain(..) {
            let index = event.data.u64() as usize;
            if writable(event) {
                thread.connections[index].flush(&thread.pool)?;
            }
            let now = thread.receive(index)?;
            if phase == WARM_UP || thread.quota > 0 {
                fill(&mut thread, index, in_flight, now)?;
            }
            thread.update_interest(index)?;
        }
        if phase == MEASURE && thread.quota == 0 && thread.connections.iter().all(|c| c.in_flight() == 0) {
            break;
        }
    }
    thread.end_measurement();
    thread.drain(&mut events)?;
    Ok(thread.report)
}

fn fill(thread: &mut Thread<'_>, index: usize, in_flight: usize, now: u64) -> Result<(), String> {
    let commands = thread.load.pipeline as u64;
    let connection = &mut thread.connections[index];
    while connection.in_flight() < in_flight && connection.can_send() {
        let batch = thread.pool.next_batch();
        connection.send(&thread.pool, batch, commands, now)?;
        if thread.shared.phase() == MEASURE {
            thread.quota = thread.quota.saturating_sub(commands);
            if thread.quota == 0 {
                break;
            }
        }
    }
    Ok(())
}
