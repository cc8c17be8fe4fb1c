//! Crashes: signals that mean that this process has gone wrong, told with the registers before they end it.
//!
//! The report runs in the signal's handler, on a stack of its own, because the thread's may be what is broken. It may take
//! locks that the thread held and never return, so an alarm ends the process after a while in any case. The signal then does
//! what it does without a handler: it ends the process, with a core file if the system keeps those.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::detach;

mod registers;
mod stack;

pub use registers::Register;
pub(crate) use stack::SignalStack;

/// The signals, with their names.
const SIGNALS: [(i32, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGABRT, "SIGABRT"),
];

/// How long a report may take.
const REPORT_SECONDS_MAX: u32 = 10;

/// What is known of a crash.
#[derive(Debug)]
pub struct Crash<'r> {
    /// The signal's name.
    pub name: &'static str,
    /// Its number.
    pub number: i32,
    /// The system's reason, `si_code`.
    pub code: i32,
    /// The address that was accessed, for signals that have one.
    pub address: usize,
    /// The registers at that moment; empty where their layout is not known here.
    pub registers: &'r [Register],
}

/// What tells of a crash.
pub type Report = fn(&Crash<'_>);

static REPORT: OnceLock<Report> = OnceLock::new();
/// The thread that reports; 0 for none.
static REPORTER: AtomicI32 = AtomicI32::new(0);

/// Lets `report` tell of every crash from now on; once per process. The calling thread gets a stack for it, as do those that
/// [`crate::thread::spawn`] starts.
///
/// # Errors
/// When the system refuses a handler.
pub fn install(report: Report) -> io::Result<()> {
    // A second report would be a second server in one process.
    let _ = REPORT.set(report);
    std::mem::forget(SignalStack::new());
    SIGNALS.iter().try_for_each(|(number, _)| handle(*number))
}

/// Claims the one report of the process for this thread, and sets the alarm that ends it. False when another thread reports, or
/// this one already does.
pub fn claim() -> bool {
    // SAFETY: neither call has preconditions.
    let own = unsafe { libc::gettid() };
    let claimed = REPORTER.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if claimed {
        // SAFETY: as above; SIGALRM has no handler and is blocked nowhere, so it ends the process.
        unsafe { libc::alarm(REPORT_SECONDS_MAX) };
    }
    claimed
}

/// Crashes by a write to memory that may not be written: for tests of the report.
///
/// # Panics
/// When the system maps no page.
pub fn segfault() -> ! {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // SAFETY: a fresh anonymous private mapping aliases nothing.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, ProtFlags::READ, MapFlags::PRIVATE) }.expect("a page");
    // SAFETY: the address is mapped and aligned; that the write faults is what it is for.
    unsafe { page.cast::<u8>().write_volatile(1) };
    unreachable!("the page cannot be written")
}

fn handle(number: i32) -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a zeroed `sigaction` is valid; the fields that are set are those of a handler with three arguments, which
    // `on_signal` is.
    let result = unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(number, action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Runs in the crashed thread.
extern "C" fn on_signal(number: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a filled `siginfo_t`.
    if [libc::SIGBUS, libc::SIGSEGV].contains(&number) && detach::goes_on(number, unsafe { (*info).si_addr() } as usize) {
        return;
    }
    // SAFETY: no preconditions; the signal has its ordinary effect from now on.
    let own = unsafe {
        libc::signal(number, libc::SIG_DFL);
        libc::gettid()
    };
    if claim() {
        // SAFETY: the kernel gives a handler with SA_SIGINFO a filled `siginfo_t` and `ucontext_t`.
        let (code, address, registers) =
            unsafe { ((*info).si_code, (*info).si_addr() as usize, registers::of(&*context.cast::<libc::ucontext_t>())) };
        let name = SIGNALS.iter().find(|signal| signal.0 == number).map_or("?", |signal| signal.1);
        if let Some(report) = REPORT.get() {
            report(&Crash { name, number, code, address, registers: &registers });
        }
    } else if REPORTER.load(Ordering::Acquire) != own {
        // Another thread reports: it ends the process, or its alarm does.
        std::thread::sleep(std::time::Duration::from_secs(u64::from(REPORT_SECONDS_MAX) + 1));
    }
    // SAFETY: the signal is blocked in its handler and has its ordinary effect: it ends the process when the handler returns.
    unsafe { libc::raise(number) };
}
