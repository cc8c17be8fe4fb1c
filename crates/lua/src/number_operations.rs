//! Arithmetic of two numbers, for the compiler and the machine alike.

use crate::instruction::Arithmetic;

#[inline]
pub(crate) fn modulo(a: f64, b: f64) -> f64 {
    a - (a / b).floor() * b
}

#[inline]
pub(crate) fn arithmetic(operator: Arithmetic, a: f64, b: f64) -> f64 {
    match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Sub => a - b,
        Arithmetic::Mul => a * b,
        Arithmetic::Div => a / b,
        Arithmetic::Mod => modulo(a, b),
        Arithmetic::Pow => a.powf(b),
    }
}
