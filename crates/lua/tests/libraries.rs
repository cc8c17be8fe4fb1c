//! `cjson`, `cmsgpack`, `struct`, `bit` and the standard library beside redis-server's.
//!
//! ALMANDINE_LUA_INPUTS says how many calls of each, ALMANDINE_LUA_SEED where they begin.

mod inputs;
mod oracle;

use inputs::Choices;
use oracle::Oracle;

/// Calls of one script.
const BATCH: u64 = 200;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Evaluates the texts on both sides; how many differ.
fn compare(oracle: &mut Oracle, sources: &[String]) -> usize {
    let expected = oracle.expected(sources);
    let actual = oracle.actual(sources);
    let mut differences = 0;
    for ((source, expected), actual) in sources.iter().zip(expected).zip(actual) {
        // Texts of objects have addresses, which differ.
        if actual != expected && !actual.contains(": 0x") {
            differences += 1;
            let cut = |text: &str| text.chars().take(1000).collect::<String>();
            eprintln!("{source}\nis:          {}\nought to be: {}\n", cut(&actual), cut(&expected));
        }
    }
    differences
}

fn hunt(generate: fn(&mut Choices) -> String) {
    let mut oracle = Oracle::start();
    let (seed, inputs) = (number("ALMANDINE_LUA_SEED", 1), number("ALMANDINE_LUA_INPUTS", 4000));
    let mut differences = 0;
    for batch in 0..inputs.div_ceil(BATCH) {
        let first = seed + batch * BATCH;
        let sources: Vec<String> = (first..first + BATCH).map(|seed| generate(&mut Choices(seed))).collect();
        oracle.slice = if batch % 2 == 0 { u64::MAX } else { 3 };
        differences += compare(&mut oracle, &sources);
        assert!(differences < 10, "too many differences");
    }
    assert_eq!(differences, 0);
}

#[test]
fn calls_at_the_edges() {
    let mut oracle = Oracle::start();
    let sources = inputs::listed();
    assert_eq!(compare(&mut oracle, &sources), 0);
    oracle.slice = 1;
    assert_eq!(compare(&mut oracle, &sources), 0);
}

#[test]
fn generated_calls_of_cjson() {
    hunt(inputs::cjson);
}

#[test]
fn generated_calls_of_cmsgpack() {
    hunt(inputs::cmsgpack);
}

#[test]
fn generated_calls_of_struct() {
    hunt(inputs::structs);
}

#[test]
fn generated_calls_of_bit() {
    hunt(inputs::bit);
}

#[test]
fn generated_calls_of_string() {
    hunt(inputs::standard::strings);
}

#[test]
fn generated_calls_of_table() {
    hunt(inputs::standard::tables);
}

#[test]
fn generated_calls_of_math() {
    hunt(inputs::standard::maths);
}

#[test]
fn generated_calls_of_globals() {
    hunt(inputs::standard::globals);
}

#[test]
fn generated_literals() {
    hunt(inputs::standard::literals);
}
