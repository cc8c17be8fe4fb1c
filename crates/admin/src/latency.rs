//! LATENCY: spikes by event, and histograms by command.

use almandine_command_spec::{Arg, CommandSpec, Group};
use almandine_handler::{AdminCall, Command, Handler, Outcome, errors, help};
use almandine_instance::Histogram;
use almandine_instance::latency::{LatencyEvent, event};

use crate::operators::FOR_OPERATORS;
use crate::sparkline;

pub(super) const COMMANDS: &[&Command] = &[&LATENCY, &DOCTOR, &GRAPH, &HELP, &HISTOGRAM, &HISTORY, &LATEST, &RESET];

const LATENCY: Command = Command {
    spec: CommandSpec {
        name: "LATENCY",
        id: 429,
        since: "2.8.13",
        complexity: "Depends on subcommand.",
        summary: "A container for latency diagnostics commands.",
        group: Group::Server,
        subcommands: &[&DOCTOR.spec, &GRAPH.spec, &HELP.spec, &HISTOGRAM.spec, &HISTORY.spec, &LATEST.spec, &RESET.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

/// What the subcommands have in common.
const SUBCOMMAND: CommandSpec = CommandSpec {
    since: "2.8.13",
    group: Group::Server,
    traits: FOR_OPERATORS,
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    ..CommandSpec::BLANK
};

const LATEST: Command = Command {
    spec: CommandSpec {
        name: "LATENCY|LATEST",
        id: 430,
        summary: "Returns the latest latency samples for all events.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let events = call.context.instance.latency.events();
        call.reply.array(events.len());
        for (name, event) in events {
            let last = event.samples.back().copied();
            call.reply.array(4);
            call.reply.bulk(name.as_bytes());
            call.reply.integer(last.map_or(0, |sample| sample.time_s));
            call.reply.unsigned(last.map_or(0, |sample| sample.elapsed_ms));
            call.reply.unsigned(event.max_ms);
        }
        Ok(())
    }),
};

const HISTORY: Command = Command {
    spec: CommandSpec {
        name: "LATENCY|HISTORY",
        id: 431,
        summary: "Returns timestamp-latency samples for an event.",
        args: &[Arg::value("event")],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let event = event(call, call.args.at(2)).unwrap_or_default();
        call.reply.array(event.samples.len());
        for sample in event.samples {
            call.reply.array(2);
            call.reply.integer(sample.time_s);
            call.reply.unsigned(sample.elapsed_ms);
        }
        Ok(())
    }),
};

fn event(call: &AdminCall<'_>, name: &[u8]) -> Option<LatencyEvent> {
    call.context.instance.latency.event(std::str::from_utf8(name).ok()?)
}

const RESET: Command = Command {
    spec: CommandSpec {
        name: "LATENCY|RESET",
        id: 432,
        summary: "Resets the latency data for one or more events.",
        args: &[Arg::value("event").multiple().optional()],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let monitor = &call.context.instance.latency;
        let names = call.args.slice_from(2);
        let forgotten = if names.is_empty() {
            monitor.reset_all()
        } else {
            names.iter().filter(|name| std::str::from_utf8(name).is_ok_and(|name| monitor.reset(name))).count()
        };
        call.reply.unsigned(forgotten as u64);
        Ok(())
    }),
};

const GRAPH: Command = Command {
    spec: CommandSpec {
        name: "LATENCY|GRAPH",
        id: 433,
        summary: "Returns a latency graph for an event.",
        args: &[Arg::value("event")],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let name = call.args.at(2);
        let event = event(call, name).ok_or_else(|| errors::server::no_latency_samples(name))?;
        let graph = graph(&String::from_utf8_lossy(name), &event, call.now_ms / 1000);
        call.reply.verbatim(graph.as_bytes());
        Ok(())
    }),
};

/// One column for each spike, the oldest left, and below it how long ago it was.
fn graph(name: &str, event: &LatencyEvent, now_s: i64) -> String {
    let columns: Vec<(u64, String)> =
        event.samples.iter().map(|sample| (sample.elapsed_ms, age(now_s.saturating_sub(sample.time_s)))).collect();
    let high = columns.iter().map(|column| column.0).max().unwrap_or(0);
    let low = columns.iter().map(|column| column.0).min().unwrap_or(0);
    let rule = "-".repeat(80);
    format!("{name} - high {high} ms, low {low} ms (all time high {} ms)\n{rule}\n{}", event.max_ms, sparkline::draw(&columns))
}

/// A number of seconds in the largest unit that it fills.
fn age(seconds: i64) -> String {
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let (length, unit) = units.into_iter().find(|(length, _)| seconds >= *length).unwrap_or((1, 's'));
    format!("{}{unit}", seconds.max(0) / length)
}

const DOCTOR: Command = Command {
    spec: CommandSpec {
        name: "LATENCY|DOCTOR",
        id: 434,
        summary: "Returns a human-readable latency analysis report.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let report = report(call);
        call.reply.verbatim(report.as_bytes());
        Ok(())
    }),
};

fn report(call: &AdminCall<'_>) -> String {
    let threshold_ms = call.context.settings().observe.latency_monitor_threshold_ms;
    if threshold_ms == 0 {
        return "Latency monitoring is off. \"CONFIG SET latency-monitor-threshold <milliseconds>\" turns it on: events that take \
                at least that long are then recorded."
            .to_owned();
    }
    report_of(&call.context.instance.latency.events(), threshold_ms)
}

/// What helps against spikes of an event.
const ADVICE: [(&str, &str); 6] = [
    (event::COMMAND, "Look at SLOWLOG GET: which commands are slow, and are they O(N) over large values or the whole keyspace?"),
    (
        event::FAST_COMMAND,
        "Commands that should be fast were slow together: look for swapping (used_memory_rss against the machine's memory), for \
         other processes on the workers' cores, and for very large values.",
    ),
    (
        event::LOG_SYNC,
        "With appendfsync always replies wait for the disk: look for other writers on the disk of 'dir', and for disks whose cache \
         does not outlive a power cut, where each sync takes as long as the medium. appendfsync everysec does not wait, and may \
         lose a second in a power cut; a crash of the process loses nothing in either.",
    ),
    (
        event::LOG_WRITE,
        "Writes of the log take long. Clients wait for them only when their rings are full, \
         or with ring-dir none: look at the disk of 'dir', how full it is, and what else writes to it.",
    ),
    (
        event::LOG_WRITE_BESIDE_COPY,
        "They took long while a snapshot or a new base of the log was written to the same disk: give save and \
         auto-aof-rewrite-percentage larger figures, or 'dir' a faster disk. No process is forked, so huge pages and the \
         overcommit of memory have no part in it.",
    ),
    (event::LOG_WRITE_ALONE, "They took long while neither was written: it is the disk, or what other programs do with it."),
];

fn report_of(events: &[(String, LatencyEvent)], threshold_ms: u64) -> String {
    if events.is_empty() {
        return format!("No event has taken {threshold_ms} ms or longer.");
    }
    let mut text = format!("Events that took {threshold_ms} ms or longer:\n");
    for (name, event) in events {
        let count = event.samples.len() as u64;
        let mean_ms = event.samples.iter().map(|sample| sample.elapsed_ms).sum::<u64>() / count.max(1);
        text.push_str(&format!("\n{name}: {count} spikes, mean {mean_ms} ms, worst ever {} ms.", event.max_ms));
    }
    text.push_str("\n\nAdvice:\n");
    for (_, advice) in ADVICE.iter().filter(|(name, _)| events.iter().any(|event| event.0 == *name)) {
        text.push_str(&format!("- {advice}\n"));
    }
    text
}

const HISTOGRAM: Command = Command {
    spec: CommandSpec {
        name: "LATENCY|HISTOGRAM",
        id: 435,
        since: "7.0.0",
        complexity: "O(N) where N is the number of commands with latency information being retrieved.",
        summary: "Returns the cumulative distribution of latencies of a subset or all commands.",
        args: &[Arg::value("command").multiple().optional()],
        ..SUBCOMMAND
    },
    run: Handler::Admin(histogram),
};

/// Answers the commands that are named, a container standing for its subcommands, or all; those that never ran are left out.
fn histogram(call: &mut AdminCall<'_>) -> Outcome {
    let names = call.args.slice_from(2);
    let is_named = |command: &str| {
        let container = command.split('|').next().unwrap_or(command);
        names.iter().any(|name| [command, container].iter().any(|word| word.as_bytes().eq_ignore_ascii_case(name)))
    };
    let statistics = &call.context.instance.statistics;
    let entries = call.context.table.rows().iter().enumerate();
    let chosen = entries.filter(|(_, entry)| names.is_empty() || is_named(&entry.name));
    let found: Vec<_> = chosen.filter_map(|(index, entry)| Some((entry.name.as_str(), statistics.latency(index)?))).collect();
    call.reply.map(found.len());
    for (name, histogram) in found {
        let steps = steps(&histogram);
        call.reply.bulk(name.as_bytes());
        call.reply.map(2);
        call.reply.bulk(b"calls");
        call.reply.unsigned(histogram.count());
        call.reply.bulk(b"histogram_usec");
        call.reply.map(steps.len());
        for (us, count) in steps {
            call.reply.unsigned(us);
            call.reply.unsigned(count);
        }
    }
    Ok(())
}

/// For powers of two of nanoseconds from 1,024 on: the limit in microseconds and how many calls took at most that long, as far as
/// the number grows. Redis' limits are the upper ends of steps of 1/128, which shows from 33 µs on.
fn steps(histogram: &Histogram) -> Vec<(u64, u64)> {
    let (mut steps, mut before) = (Vec::new(), 0);
    for exponent in 10..=36 {
        let limit_ns = (1_u64 << exponent) + (1 << (exponent - 7)) - 1;
        let count = histogram.at_most(limit_ns);
        if count > before {
            steps.push((limit_ns / 1000, count));
        }
        before = count;
    }
    steps
}

const HELP: Command = help::command("LATENCY|HELP", 436, SUBCOMMAND);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_cumulative_and_leave_out_what_adds_nothing() {
        let histogram = Histogram::default();
        histogram.record(500, 2);
        histogram.record(40_000, 1);
        assert_eq!(steps(&histogram), [(1, 2), (66, 3)]);
    }

    /// Each event that is recorded has its advice, and no other is given.
    #[test]
    fn the_advice_is_that_of_the_events_that_were_recorded() {
        assert_eq!(ADVICE.map(|row| row.0), event::ALL);
        assert_eq!(report_of(&[], 100), "No event has taken 100 ms or longer.");
        for (name, advice) in ADVICE {
            let monitor = almandine_instance::latency::LatencyMonitor::default();
            monitor.record(name, 7, 250);
            monitor.record(name, 8, 150);
            let text = report_of(&monitor.events(), 100);
            assert!(text.contains(&format!("{name}: 2 spikes, mean 200 ms, worst ever 250 ms.")), "{text}");
            assert_eq!(text.lines().filter(|line| line.starts_with("- ")).collect::<Vec<_>>(), [format!("- {advice}")]);
        }
    }

    #[test]
    fn ages_are_short() {
        assert_eq!([age(0), age(59), age(60), age(7_200), age(200_000)], ["0s", "59s", "1m", "2h", "2d"]);
    }
}
