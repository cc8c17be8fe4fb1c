//! From JSON runs to charts: which runs form a line, and which lines a chart.

use std::collections::BTreeMap;

use serde_json::Value;

use super::chart::{Axis, Chart, Look, Scale, Series};
use super::colours::Colours;
use crate::report::statistics::Spread;
use crate::report::table::count;

/// The settings that tell lines apart, and how the legend names them.
const SETTINGS: &[(&str, &str)] =
    &[("server", ""), ("phase", ""), ("operation", ""), ("pipeline", "P="), ("connections", "c="), ("keys", "k="), ("value", "v=")];

/// Every chart that the runs have data for, with a name for its file.
pub(super) fn charts(runs: &[Value], title: Option<&str>) -> Vec<(String, Chart)> {
    let colours = Colours::of(runs);
    let x = |name: &str| Axis { title: name.into(), scale: Scale::Log, label: tick };
    let rate = || Axis { title: "operations per second".into(), scale: Scale::Linear, label: tick };
    let cpu = || Axis { title: "server CPU µs per operation".into(), scale: Scale::Log, label: tick };
    let title = |default: &str| title.unwrap_or(default).to_owned();
    let candidates = [
        ("throughput-connections", "connections", "ops_per_second", x("connections"), rate(), "Throughput against connections"),
        ("throughput-pipeline", "pipeline", "ops_per_second", x("commands per batch"), rate(), "Throughput against batch size"),
        ("cpu-pipeline", "pipeline", "server_cpu_us_per_op", x("commands per batch"), cpu(), "Server CPU against batch size"),
        ("throughput-keys", "keys", "ops_per_second", x("keys"), rate(), "Throughput against keys"),
    ];
    let mut charts = Vec::new();
    for (name, along, of, x, mut y, default) in candidates {
        let series = lines(runs, along, of, &colours);
        let values = || series.iter().flat_map(|s| s.points.iter().map(|p| p.1));
        if values().fold(0.0, f64::max) > 20.0 * values().fold(f64::INFINITY, f64::min) {
            y.scale = Scale::Log;
        }
        if !series.is_empty() {
            let better = if of == "ops_per_second" { HIGHER } else { LOWER };
            let caption = caption(runs, Some(along), better);
            charts.push((name.to_owned(), Chart { title: title(default), caption, x, y, series, ticks_at_data: true }));
        }
    }
    for (name, runs) in latency_groups(runs) {
        let (series, runs) = (latency_curves(&runs, &colours), &runs[..]);
        let x = Axis { title: "percentile".into(), scale: Scale::Nines, label: |q| format!("{}", (q * 1e7).round() / 1e5) };
        let y = Axis { title: "latency µs".into(), scale: Scale::Log, label: tick };
        let (title, caption) = (title("Latency by percentile"), caption(runs, None, LOWER));
        charts.push((name, Chart { title, caption, x, y, series, ticks_at_data: false }));
    }
    for (name, field, label, default) in [
        ("resident", "resident_bytes_over_seconds", "resident bytes", "Resident memory during the churn"),
        ("expiry", "keys_over_seconds", "keys", "Keys left while they expire"),
    ] {
        let (names, points): (Vec<String>, Vec<_>) =
            runs.iter().filter_map(|run| Some((text(run, "server"), pairs(&run[field])?))).unzip();
        let looks = colours.looks(names.iter().map(String::as_str));
        let series: Vec<Series> = names.iter().cloned().zip(points).zip(looks).map(named).collect();
        if !series.is_empty() {
            let x = Axis { title: "seconds".into(), scale: Scale::Linear, label: tick };
            let y = Axis { title: label.into(), scale: Scale::Linear, label: tick };
            let caption = caption(runs, None, LOWER);
            charts.push((name.to_owned(), Chart { title: title(default), caption, x, y, series, ticks_at_data: false }));
        }
    }
    charts
}

/// The number beside a tick: round ones are as short as they can be, as 500k and 0.5.
fn tick(value: f64) -> String {
    let text = if value < 1e4 { format!("{value:.3}") } else { count(value) };
    let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

const HIGHER: &str = "higher is better";
const LOWER: &str = "lower is better";

/// What all runs share, what repeats became, and which direction is good.
fn caption(runs: &[Value], along: Option<&str>, better: &str) -> String {
    let rows: Vec<Vec<Setting>> = runs.iter().map(|run| settings(run, along.unwrap_or_default())).collect();
    let shared = (0..SETTINGS.len()).filter(|column| rows.iter().all(|row| row[*column] == rows[0][*column]));
    let shared = shared.map(|column| rows[0][column].text.clone()).filter(|text| !text.is_empty());
    let repeats = along.map(|_| "median and range of the repeats".to_owned());
    shared.chain(repeats).chain([better.to_owned()]).collect::<Vec<_>>().join(" · ")
}

fn named(((name, points), look): ((String, Vec<(f64, f64)>), Look)) -> Series {
    Series { name, points, spread: Vec::new(), look }
}

/// Lines of `of` along `along`: runs that agree in all other settings form a line, repeats become their median. Zero is no
/// measurement.
fn lines(runs: &[Value], along: &str, of: &str, colours: &Colours) -> Vec<Series> {
    let mut groups: BTreeMap<Vec<Setting>, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for run in runs {
        let (Some(x), Some(y)) = (run[along].as_u64(), run[of].as_f64().filter(|y| *y > 0.0)) else { continue };
        groups.entry(settings(run, along)).or_default().entry(x).or_default().push(y);
    }
    groups.retain(|_, points| points.len() > 1);
    let names = legend(groups.keys());
    let looks = colours.looks(groups.keys().map(|settings| settings[0].text.as_str()));
    let middle = |(x, y): (u64, Vec<f64>)| Spread::of(y).map(|spread| ((x as f64, spread.median), (spread.min, spread.max)));
    let series = names.into_iter().zip(groups.into_values()).zip(looks).map(|((name, values), look)| {
        let (points, spread) = values.into_iter().filter_map(middle).unzip();
        Series { name, points, spread, look }
    });
    series.collect()
}

/// Runs with a latency curve that belong into one chart, with its name: where several servers were measured, those of one load,
/// which have one curve per server; of one server, those of one operation. All in one chart cannot be read.
fn latency_groups(runs: &[Value]) -> Vec<(String, Vec<Value>)> {
    let several = runs.iter().any(|run| run["server"] != runs[0]["server"]);
    let mut groups: BTreeMap<Vec<Setting>, Vec<Value>> = BTreeMap::new();
    for run in runs.iter().filter(|run| pairs(&run["latency_us"]).is_some()) {
        let mut load = settings(run, "server");
        if !several {
            load.retain(|setting| setting.text == text(run, "operation"));
        }
        groups.entry(load).or_default().push(run.clone());
    }
    let names = legend(groups.keys());
    let alone = groups.len() == 1;
    let name = |name: &str| {
        let plain = name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        if alone { "latency".to_owned() } else { format!("latency-{plain}") }
    };
    names.iter().map(|text| name(text)).zip(groups.into_values()).collect()
}

/// One curve per combination of settings; repeats become medians per quantile.
fn latency_curves(runs: &[Value], colours: &Colours) -> Vec<Series> {
    let mut groups: BTreeMap<Vec<Setting>, Vec<Vec<(f64, f64)>>> = BTreeMap::new();
    for run in runs {
        if let Some(curve) = pairs(&run["latency_us"]) {
            groups.entry(settings(run, "")).or_default().push(curve);
        }
    }
    let names = legend(groups.keys());
    let looks = colours.looks(groups.keys().map(|settings| settings[0].text.as_str()));
    let middle = |curves: Vec<Vec<(f64, f64)>>| {
        let quantiles = curves[0].iter().map(|p| p.0).filter(|&q| q < 1.0).enumerate();
        let median = |i: usize| {
            Spread::of(curves.iter().filter_map(|c| Some(c.get(i)?.1).filter(|latency| *latency > 0.0))).map(|s| s.median)
        };
        quantiles.filter_map(|(i, q)| Some((q, median(i)?))).collect()
    };
    names.into_iter().zip(groups.into_values().map(middle)).zip(looks).map(named).collect()
}

/// A setting of a run: numbers in the order of numbers, then words.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Setting {
    number: u64,
    text: String,
}

fn settings(run: &Value, except: &str) -> Vec<Setting> {
    let shown = |&(name, mark): &(&str, &str)| match (name == except, &run[name]) {
        (true, _) | (_, Value::Null) => Setting::default(),
        (_, Value::Number(number)) => {
            let number = number.as_f64().unwrap_or(0.0);
            Setting { number: number as u64, text: format!("{mark}{}", count(number)) }
        }
        _ => Setting { number: 0, text: format!("{mark}{}", text(run, name)) },
    };
    SETTINGS.iter().map(shown).collect()
}

/// Names that mention only what differs between the lines.
fn legend<'a>(groups: impl Iterator<Item = &'a Vec<Setting>>) -> Vec<String> {
    let groups: Vec<&Vec<Setting>> = groups.collect();
    let differs = |column: usize| groups.iter().any(|g| g[column] != groups[0][column]);
    let width = groups.first().map_or(0, |group| group.len());
    let mut columns: Vec<usize> = (0..width).filter(|&c| differs(c)).collect();
    if columns.is_empty() && width > 0 {
        columns.push(0);
    }
    let name = |group: &&Vec<Setting>| {
        let parts: Vec<&str> = columns.iter().map(|&c| group[c].text.as_str()).filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    };
    groups.iter().map(name).collect()
}

fn text(run: &Value, field: &str) -> String {
    run[field].as_str().unwrap_or_default().to_owned()
}

fn pairs(value: &Value) -> Option<Vec<(f64, f64)>> {
    value.as_array()?.iter().map(|pair| Some((pair[0].as_f64()?, pair[1].as_f64()?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runs_become_lines_with_medians() {
        let run = |server: &str, pipeline: u64, ops: f64| {
            json!({"server": server, "operation": "get", "pipeline": pipeline, "connections": 50, "keys": 1000, "value": "8",
                   "ops_per_second": ops, "latency_us": [[0.5, 10.0], [0.99, 50.0], [1.0, 80.0]]})
        };
        let runs =
            [run("a", 1, 10.0), run("a", 1, 30.0), run("a", 1, 20.0), run("a", 16, 99.0), run("b", 1, 5.0), run("b", 16, 6.0)];
        let charts = charts(&runs, None);
        let names: Vec<&str> = charts.iter().map(|c| c.0.as_str()).collect();
        assert_eq!(names, ["throughput-pipeline", "latency-p-1", "latency-p-16"]);
        let series = &charts[0].1.series;
        assert_eq!(series[0].points, [(1.0, 20.0), (16.0, 99.0)]);
        assert_eq!([series[0].name.as_str(), series[1].name.as_str()], ["a", "b"]);
        for (name, chart) in &charts {
            let looks: Vec<Look> = chart.series.iter().map(|line| line.look).collect();
            assert_eq!(looks, [Look { colour: 0, pattern: 0 }, Look { colour: 1, pattern: 0 }], "a and b in {name}");
        }
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        let run = |pipeline: u64, cpu: Option<f64>| {
            json!({"server": "a", "operation": "get", "pipeline": pipeline,
                   "server_cpu_us_per_op": cpu, "ops_per_second": 0.0})
        };
        let charts = charts(&[run(1, Some(4.0)), run(16, Some(0.5)), run(64, None), run(256, Some(0.0))], None);
        assert_eq!(charts.iter().map(|chart| chart.0.as_str()).collect::<Vec<_>>(), ["cpu-pipeline"]);
        assert_eq!(charts[0].1.series[0].points, [(1.0, 4.0), (16.0, 0.5)]);
    }

    #[test]
    fn ticks_are_short() {
        let ticks = [0.0, 0.002, 0.5, 1.0, 20.0, 2_000.0, 50_000.0, 1_500_000.0, 2e9].map(tick);
        assert_eq!(ticks, ["0", "0.002", "0.5", "1", "20", "2000", "50k", "1.5M", "2G"]);
    }

    #[test]
    fn numbers_come_in_the_order_of_numbers_and_captions_say_what_is_good() {
        let run = |connections: u64, pipeline: u64| {
            json!({"server": "a", "operation": "get", "pipeline": pipeline, "connections": connections, "keys": 1000, "value": "8",
                   "server_cpu_us_per_op": 1.0, "ops_per_second": 5.0})
        };
        let runs: Vec<Value> = [1000, 50, 200].iter().flat_map(|c| [run(*c, 1), run(*c, 16), run(*c, 16)]).collect();
        let charts = charts(&runs, None);
        let chart = |name: &str| &charts.iter().find(|c| c.0 == name).expect(name).1;
        let names: Vec<&str> = chart("throughput-pipeline").series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["c=50", "c=200", "c=1000"]);
        assert!(
            chart("throughput-pipeline")
                .caption
                .ends_with("a · get · k=1000 · v=8 · median and range of the repeats · higher is better")
        );
        assert!(chart("cpu-pipeline").caption.ends_with("lower is better"));
    }
}
