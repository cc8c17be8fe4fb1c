//! The registers of a crash, by name.

/// A register and what it held.
pub type Register = (&'static str, u64);

/// The registers that a signal interrupted.
#[cfg(target_arch = "x86_64")]
pub(super) fn of(context: &libc::ucontext_t) -> Vec<Register> {
    const NAMES: [(&str, i32); 18] = [
        ("RIP", libc::REG_RIP),
        ("RSP", libc::REG_RSP),
        ("RBP", libc::REG_RBP),
        ("EFL", libc::REG_EFL),
        ("RAX", libc::REG_RAX),
        ("RBX", libc::REG_RBX),
        ("RCX", libc::REG_RCX),
        ("RDX", libc::REG_RDX),
        ("RDI", libc::REG_RDI),
        ("RSI", libc::REG_RSI),
        ("R8", libc::REG_R8),
        ("R9", libc::REG_R9),
        ("R10", libc::REG_R10),
        ("R11", libc::REG_R11),
        ("R12", libc::REG_R12),
        ("R13", libc::REG_R13),
        ("R14", libc::REG_R14),
        ("R15", libc::REG_R15),
    ];
    let registers = &context.uc_mcontext.gregs;
    NAMES.iter().map(|(name, index)| (*name, registers[*index as usize].cast_unsigned())).collect()
}

/// The registers that a signal interrupted.
#[cfg(target_arch = "aarch64")]
pub(super) fn of(context: &libc::ucontext_t) -> Vec<Register> {
    let machine = &context.uc_mcontext;
    let special = [("PC", machine.pc), ("SP", machine.sp), ("LR", machine.regs[30]), ("PSTATE", machine.pstate)];
    const NAMES: [&str; 30] = [
        "X0", "X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8", "X9", "X10", "X11", "X12", "X13", "X14", "X15", "X16", "X17", "X18",
        "X19", "X20", "X21", "X22", "X23", "X24", "X25", "X26", "X27", "X28", "X29",
    ];
    special.into_iter().chain(NAMES.into_iter().zip(machine.regs)).collect()
}

/// Their layout is not known here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn of(_: &libc::ucontext_t) -> Vec<Register> {
    Vec::new()
}
