//! The title of the process: what `ps` shows in place of the command line.
//!
//! The kernel shows the memory of the command line, so bytes written there are the title. The environment lies behind it and is
//! copied away, so that its place can be used too.

use std::fs;
use std::sync::{Mutex, PoisonError};

/// The memory of the command line and the environment.
struct Place {
    start: usize,
    bytes: usize,
}

/// Where the title goes, once [`take_command_line`] has found it. Writers take turns.
static PLACE: Mutex<Option<Place>> = Mutex::new(None);

/// The command line, whose memory becomes the place of the title. Call it before any thread is started: with other threads,
/// which may read the environment while it moves, there is no title.
#[must_use]
pub fn take_command_line() -> Vec<String> {
    let arguments = std::env::args().collect();
    if threads() == Some(1)
        && let Some(place) = place()
    {
        for (name, value) in std::env::vars_os() {
            // SAFETY: there is one thread. The system's library keeps a copy of the variable, so the first text is not used any
            // more.
            unsafe { std::env::set_var(name, value) };
        }
        *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }
    arguments
}

fn threads() -> Option<usize> {
    fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// Shows a title, as far as there is room for it; nothing without [`take_command_line`].
pub fn set(title: &str) {
    let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(place) = place.as_ref() else { return };
    let text = &title.as_bytes()[..title.len().min(place.bytes - 1)];
    let start = std::ptr::with_exposed_provenance_mut::<u8>(place.start);
    // SAFETY: the memory belongs to the process for as long as it lives, has no other user, and the lock is held. The text and
    // a zero fit.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), start, text.len());
        std::ptr::write_bytes(start.add(text.len()), 0, place.bytes - text.len());
    }
}

/// As the kernel says in `/proc/self/stat`: fields 48 to 51 are the ends of the command line and of the environment.
fn place() -> Option<Place> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in parentheses, which may have blanks.
    let fields: Vec<usize> = stat.rsplit_once(") ")?.1.split(' ').map(|field| field.trim().parse().unwrap_or(0)).collect();
    let &[start, end, environment, environment_end] = fields.get(48 - 3..=51 - 3)? else { return None };
    let end = if environment == end { environment_end } else { end };
    (start != 0 && end > start).then(|| Place { start, bytes: end - start })
}
