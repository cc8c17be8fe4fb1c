//! What is told at the end of a run.

use std::time::Duration;

use super::step::Ended;

/// Problems that a failed step may have at the end; the whole is above.
const PROBLEMS_MAX: usize = 12;
/// Lines that one problem may have, and characters that such a line may have.
const PROBLEM_LINES_MAX: usize = 32;
const PROBLEM_CHARS_MAX: usize = 300;
/// Tests of a run that may fail and pass when they are tried again.
const UNSTEADY_MAX: usize = 2;

/// Prints it; true when nothing failed.
pub(super) fn summary(mut ended: Vec<Ended>, took: Duration) -> bool {
    ended.extend(too_unsteady(&ended));
    let ended = &ended;
    println!("\n{:<28} {:>7} {:>7} {:>7} {:>9} {:>9}", "step", "passed", "failed", "skipped", "seconds", "processor");
    for e in ended {
        let processor = e.processor.map_or_else(|| "-".to_owned(), |used| format!("{:.1}", used.as_secs_f64()));
        let seconds = e.took.as_secs_f64();
        println!("{:<28} {:>7} {:>7} {:>7} {seconds:>9.1} {processor:>9}", e.name, e.passed, e.failed, e.skipped);
    }
    println!("in {:.0} s", took.as_secs_f64());
    print!("{}", told_again(ended));
    println!("{}", closing_line(ended));
    ended.iter().all(|e| e.failed == 0)
}

/// A failure, when more tests passed only at their second try than may.
fn too_unsteady(ended: &[Ended]) -> Option<Ended> {
    let unsteady: usize = ended.iter().map(|e| e.unsteady.len()).sum();
    let problems = vec![format!("{unsteady} tests passed only when tried again; {UNSTEADY_MAX} may")];
    (unsteady > UNSTEADY_MAX).then(|| Ended { failed: 1, problems, ..Ended::new("steady tests", Duration::ZERO) })
}

/// `N passed, N failed, N skipped`, alone on the last line: what other programs read.
fn closing_line(ended: &[Ended]) -> String {
    let sum = |count: fn(&Ended) -> usize| ended.iter().map(count).sum::<usize>();
    format!("{} passed, {} failed, {} skipped", sum(|e| e.passed), sum(|e| e.failed), sum(|e| e.skipped))
}

/// What could not be run and what failed, short: a log that was cut off at its beginning still has it.
fn told_again(ended: &[Ended]) -> String {
    let mut text: String = ended.iter().flat_map(|e| &e.left_out).map(|what| format!("LEFT OUT: {what}\n")).collect();
    for e in ended.iter().filter(|e| !e.unsteady.is_empty()) {
        text += &format!("UNSTEADY, passed when tried again: {}\n{}", e.name, listed(&e.unsteady));
    }
    for e in ended.iter().filter(|e| e.failed > 0) {
        text += &format!("FAILED: {}\n{}", e.name, listed(&e.problems));
    }
    text
}

fn listed(problems: &[String]) -> String {
    let mut text = String::new();
    for problem in problems.iter().take(PROBLEMS_MAX) {
        for line in problem.lines().filter(|line| !line.trim().is_empty()).take(PROBLEM_LINES_MAX) {
            let short: String = line.chars().take(PROBLEM_CHARS_MAX).collect();
            text += &format!("    {short}{}\n", if short.len() < line.len() { " …" } else { "" });
        }
    }
    if problems.len() > PROBLEMS_MAX {
        text += &format!("    and {} more\n", problems.len() - PROBLEMS_MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_names_what_failed() {
        let mut problems = vec!["unit/a: failed: one\n    Expected '1'".to_owned(), "x".repeat(2 * PROBLEM_CHARS_MAX)];
        problems.extend((0..PROBLEMS_MAX).map(|n| n.to_string()));
        let ended = |name: &str, failed, problems| Ended { failed, problems, ..Ended::new(name, Duration::ZERO) };
        let told = told_again(&[ended("fine", 0, Vec::new()), ended("suite", 1, problems), ended("build", 1, Vec::new())]);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[..3], ["FAILED: suite", "    unit/a: failed: one", "        Expected '1'"]);
        assert!(lines[3].ends_with("x …") && lines[3].len() < PROBLEM_CHARS_MAX + 10);
        assert_eq!(lines[PROBLEMS_MAX + 1..], ["    9", "    and 2 more", "FAILED: build"]);
    }

    #[test]
    fn what_is_left_out_is_counted_and_named_at_the_end() {
        let left_out = vec!["clients: no Go".to_owned()];
        let steps = [
            Ended { passed: 2, ..Ended::new("unit", Duration::ZERO) },
            Ended { skipped: 1, left_out, ..Ended::new("clients", Duration::ZERO) },
        ];
        assert_eq!(told_again(&steps), "LEFT OUT: clients: no Go\n");
        assert_eq!(closing_line(&steps), "2 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_failed_step_fails_the_run() {
        let ended = |failed| Ended { passed: 1, failed, ..Ended::new("a", Duration::ZERO) };
        assert!(summary(vec![ended(0)], Duration::ZERO));
        assert!(!summary(vec![ended(0), ended(1)], Duration::ZERO));
    }

    #[test]
    fn what_is_unsteady_is_told_and_fails_when_there_is_much_of_it() {
        let unsteady = |count| {
            let unsteady = (0..count).map(|n| format!("a::b{n}: it took long")).collect();
            Ended { passed: 9, unsteady, ..Ended::new("unit", Duration::ZERO) }
        };
        assert_eq!(told_again(&[unsteady(1)]), "UNSTEADY, passed when tried again: unit\n    a::b0: it took long\n");
        assert!(summary(vec![unsteady(UNSTEADY_MAX)], Duration::ZERO));
        assert!(!summary(vec![unsteady(UNSTEADY_MAX), unsteady(1)], Duration::ZERO));
    }
}
