//! `math`, with random numbers of its own, and `os.clock`.

use crate::random::{RANDOM_MAX, Random};
use crate::value::LuaValue;
use crate::vm::code::Native;
use crate::vm::context::{Action, Context, Stepped};
use crate::vm::state::State;

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("abs", |c| one(c, f64::abs)),
    ("acos", |c| one(c, f64::acos)),
    ("asin", |c| one(c, f64::asin)),
    ("atan", |c| one(c, f64::atan)),
    ("atan2", |c| two(c, f64::atan2)),
    ("ceil", |c| one(c, f64::ceil)),
    ("cos", |c| one(c, f64::cos)),
    ("cosh", |c| one(c, f64::cosh)),
    ("deg", |c| one(c, |x| x / (std::f64::consts::PI / 180.0))),
    ("exp", |c| one(c, f64::exp)),
    ("floor", |c| one(c, f64::floor)),
    ("fmod", |c| two(c, |x, y| x % y)),
    ("frexp", frexp),
    ("ldexp", ldexp),
    ("log", |c| one(c, f64::ln)),
    ("log10", |c| one(c, f64::log10)),
    ("max", |c| extreme(c, |candidate, best| candidate > best)),
    ("min", |c| extreme(c, |candidate, best| candidate < best)),
    ("mod", |c| two(c, |x, y| x % y)),
    ("modf", modf),
    ("pow", |c| two(c, f64::powf)),
    ("rad", |c| one(c, |x| x * (std::f64::consts::PI / 180.0))),
    ("random", random),
    ("randomseed", randomseed),
    ("sin", |c| one(c, f64::sin)),
    ("sinh", |c| one(c, f64::sinh)),
    ("sqrt", |c| one(c, f64::sqrt)),
    ("tan", |c| one(c, f64::tan)),
    ("tanh", |c| one(c, f64::tanh)),
];

pub(super) const OS: &[(&str, Native)] = &[("clock", clock)];

/// Adds the constants.
pub(super) fn add_constants(state: &mut State, table: crate::value::TableRef) {
    state.heap.set_field(table, "pi", LuaValue::Number(std::f64::consts::PI));
    state.heap.set_field(table, "huge", LuaValue::Number(f64::INFINITY));
}

fn one(context: &mut Context<'_>, function: fn(f64) -> f64) -> Stepped {
    let x = context.number(0)?;
    context.return_one(LuaValue::Number(function(x)))
}

fn two(context: &mut Context<'_>, function: fn(f64, f64) -> f64) -> Stepped {
    // In the order in which C's compilers evaluate arguments: it shows which of two wrong ones a message names.
    let y = context.number(1)?;
    let x = context.number(0)?;
    context.return_one(LuaValue::Number(function(x, y)))
}

fn extreme(context: &mut Context<'_>, is_better: fn(f64, f64) -> bool) -> Stepped {
    let mut best = context.number(0)?;
    for index in 1..context.count {
        let candidate = context.number(index)?;
        if is_better(candidate, best) {
            best = candidate;
        }
    }
    context.return_one(LuaValue::Number(best))
}

fn modf(context: &mut Context<'_>) -> Stepped {
    let x = context.number(0)?;
    let whole = x.trunc();
    let fraction = if x.is_infinite() { 0.0_f64.copysign(x) } else { (x - whole).copysign(x) };
    context.state.push(LuaValue::Number(whole));
    context.state.push(LuaValue::Number(fraction));
    Ok(Action::Return(2))
}

fn frexp(context: &mut Context<'_>) -> Stepped {
    let x = context.number(0)?;
    let (mut mantissa, mut exponent) = (x, 0_i64);
    if x != 0.0 && x.is_finite() {
        // A subnormal number is scaled first.
        let scaled = if x.abs() < f64::MIN_POSITIVE { x * 2.0_f64.powi(64) } else { x };
        exponent = ((scaled.to_bits() >> 52) & 0x7ff) as i64 - 1022 - if scaled.to_bits() == x.to_bits() { 0 } else { 64 };
        mantissa = f64::from_bits(scaled.to_bits() & !(0x7ff << 52) | (1022 << 52));
    }
    context.state.push(LuaValue::Number(mantissa));
    context.state.push(LuaValue::Number(exponent as f64));
    Ok(Action::Return(2))
}

fn ldexp(context: &mut Context<'_>) -> Stepped {
    let mut x = context.number(0)?;
    let mut exponent = context.short_integer(1)?.clamp(-5000, 5000) as i32;
    while exponent > 1000 {
        x *= 2.0_f64.powi(1000);
        exponent -= 1000;
    }
    // One last step, so that a subnormal result is rounded once.
    while exponent < -1000 && x.abs() >= f64::MIN_POSITIVE * 2.0_f64.powi(60) {
        x *= 2.0_f64.powi(-900);
        exponent += 900;
    }
    context.return_one(LuaValue::Number(if exponent < -1022 {
        x * 2.0_f64.powi(-1022) * 2.0_f64.powi(exponent + 1022)
    } else {
        x * 2.0_f64.powi(exponent)
    }))
}

fn random(context: &mut Context<'_>) -> Stepped {
    let drawn = f64::from(context.state.random.next() % RANDOM_MAX) / f64::from(RANDOM_MAX);
    let (low, high) = match context.count {
        0 => return context.return_one(LuaValue::Number(drawn)),
        1 => {
            let high = context.short_integer(0)?;
            if high < 1 {
                return Err(context.argument_error(0, "interval is empty"));
            }
            (1, high)
        }
        2 => {
            let (low, high) = (context.short_integer(0)?, context.short_integer(1)?);
            if low > high {
                return Err(context.argument_error(1, "interval is empty"));
            }
            (low, high)
        }
        _ => return Err(context.error("wrong number of arguments")),
    };
    // An `int` of C, which may overflow.
    let span = f64::from((high as i32).wrapping_sub(low as i32).wrapping_add(1));
    context.return_one(LuaValue::Number((drawn * span).floor() + low as f64))
}

fn randomseed(context: &mut Context<'_>) -> Stepped {
    let seed = context.integer(0)? as i32;
    context.state.random = Random::new(seed);
    context.return_none()
}

fn clock(context: &mut Context<'_>) -> Stepped {
    let seconds = (context.state.clock)();
    context.return_one(LuaValue::Number(seconds))
}
