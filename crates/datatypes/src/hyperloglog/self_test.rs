//! What PFSELFTEST tests: that registers keep what is written to them, and that estimates are about right.

use super::add::add;
use super::dense;
use super::element::Observation;
use super::header::{EMPTY, HEADER_BYTES};
use super::registers::Registers;
use super::shape::{REGISTERS, Way};
use super::value::{DENSE_BYTES, Hll, to_dense};

/// Different elements that are added.
const ELEMENTS: u64 = 200_000;
/// 1.04 / sqrt(16384)
const STANDARD_ERROR: f64 = 0.008_125;
const ERRORS_MAX: f64 = 6.0;

/// Runs the tests. The error says what is wrong.
///
/// # Errors
/// When something is.
pub fn run() -> Result<(), String> {
    registers()?;
    estimates()
}

fn registers() -> Result<(), String> {
    let mut model = [0u8; REGISTERS];
    let mut value = dense_value()?;
    for round in 0..10u64 {
        for (index, expected) in model.iter_mut().enumerate() {
            let random = Observation::of(&(round << 32 | index as u64).to_le_bytes()).index;
            *expected = (random % 64) as u8;
            dense::write(registers_of(&mut value)?, index, *expected);
        }
        let registers = registers_of(&mut value)?;
        for (index, &expected) in model.iter().enumerate() {
            let found = dense::get(registers, index);
            if found != expected {
                return Err(format!("TESTFAILED Register {index} should be {expected} but is {found}"));
            }
        }
    }
    Ok(())
}

fn estimates() -> Result<(), String> {
    let (mut dense, mut sparse) = (dense_value()?, EMPTY.to_vec());
    let mut checkpoint = 1;
    for element in 1..=ELEMENTS {
        let observation = Observation::of(&element.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        for value in [&mut dense, &mut sparse] {
            add(value, observation, 3000).map_err(|_| corrupted())?;
        }
        if element == checkpoint || element == ELEMENTS {
            check(&dense, &sparse, element)?;
            checkpoint *= 10;
        }
    }
    Ok(())
}

fn check(dense: &[u8], sparse: &[u8], elements: u64) -> Result<(), String> {
    let mut merged = Registers::default();
    let estimate = cardinality(dense, Way::Words)?;
    merged.merge(Hll::open(sparse).ok_or_else(corrupted)?, Way::Words).map_err(|_| corrupted())?;
    let others = [cardinality(dense, Way::Single)?, cardinality(sparse, Way::Words)?, merged.cardinality(Way::Words)];
    if others.iter().any(|other| *other != estimate) {
        return Err(format!("TESTFAILED {estimate} and {others:?} are estimates of the same registers"));
    }
    let error = estimate.abs_diff(elements);
    let error_max = (STANDARD_ERROR * ERRORS_MAX * elements as f64).ceil();
    if error as f64 > error_max {
        return Err(format!("TESTFAILED Too big error. card:{elements} abserr:{error}"));
    }
    Ok(())
}

fn cardinality(value: &[u8], way: Way) -> Result<u64, String> {
    Hll::open(value).ok_or_else(corrupted)?.cardinality(way).map_err(|_| corrupted())
}

fn dense_value() -> Result<Vec<u8>, String> {
    to_dense(&EMPTY).map_err(|_| corrupted())
}

fn registers_of(value: &mut [u8]) -> Result<&mut [u8; dense::BYTES], String> {
    let registers = value.get_mut(HEADER_BYTES..DENSE_BYTES).and_then(|registers| registers.try_into().ok());
    registers.ok_or_else(corrupted)
}

fn corrupted() -> String {
    "TESTFAILED a value is no HyperLogLog any more".to_owned()
}
