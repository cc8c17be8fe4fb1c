//! The grid as Markdown: a table for each group, and how often and by how much we are cheaper than whom.

use super::groups::Group;
use crate::scenario::Scenario;
use almandine_bench::report::statistics::Spread;
use almandine_bench::report::table::{count, small};

/// A group with what was measured.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) group: &'static Group,
    pub(super) keys: u64,
    pub(super) scenarios: Vec<Scenario>,
}

/// All tables. The first server is compared with each of the others.
pub(super) fn report(parts: &[Part], names: &[String]) -> String {
    let tables: Vec<String> = parts.iter().map(|part| part.table(names)).collect();
    tables.join("\n") + &summary(parts, names)
}

impl Part {
    fn table(&self, names: &[String]) -> String {
        let mut text = format!("### {} {}\n\n| command | P |", count(self.keys as f64), self.group.title);
        let ratio = |server: usize| if server == 0 { "" } else { " ratio |" };
        names.iter().enumerate().for_each(|(server, name)| text += &format!(" {name} |{}", ratio(server)));
        text += &format!("\n|---|--:|--:|{}\n", "--:|--:|".repeat(names.len().saturating_sub(1)));
        for scenario in &self.scenarios {
            text += &format!("| {} | {} |", name_of(scenario), scenario.pipeline);
            for server in 0..names.len() {
                text += &format!(" {} |", scenario.cpu(server).map_or("–".into(), show));
                if server > 0 {
                    text += &format!(" {} |", ratio_to(scenario, server).map_or("–".into(), |ratio| format!("{ratio:.2}")));
                }
            }
            text.push('\n');
        }
        text
    }
}

/// The median of the ratios to each other server by batch size, and the greatest of them.
fn summary(parts: &[Part], names: &[String]) -> String {
    let scenarios: Vec<&Scenario> = parts.iter().flat_map(|part| &part.scenarios).collect();
    let mut sizes: Vec<usize> = scenarios.iter().map(|scenario| scenario.pipeline).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut text = "\n### All of them: the median of the ratios\n\n| against |".to_owned();
    sizes.iter().for_each(|size| text += &format!(" P={size} |"));
    text += &format!(" all | greatest |\n|---|{}--:|---|\n", "--:|".repeat(sizes.len()));
    for (server, name) in names.iter().enumerate().skip(1) {
        let ratios: Vec<(f64, &Scenario)> = scenarios.iter().filter_map(|s| Some((ratio_to(s, server)?, *s))).collect();
        let median = |size: Option<usize>| {
            let of = ratios.iter().filter(|(_, scenario)| size.is_none_or(|size| scenario.pipeline == size));
            Spread::of(of.map(|(ratio, _)| *ratio)).map_or("–".into(), |spread| format!("{:.2}", spread.median))
        };
        text += &format!("| {name} |");
        sizes.iter().for_each(|size| text += &format!(" {} |", median(Some(*size))));
        let greatest = ratios.iter().max_by(|one, other| one.0.total_cmp(&other.0));
        let greatest = greatest.map_or("–".into(), |(ratio, s)| format!("{ratio:.2}, {} P={}", name_of(s), s.pipeline));
        text += &format!(" {} | {greatest} |\n", median(None));
    }
    text
}

/// `HDEL and HSET`
fn name_of(scenario: &Scenario) -> String {
    let names = scenario.workload.operations.iter().map(|operation| {
        let command = operation.template.command();
        String::from_utf8_lossy(command).into_owned()
    });
    names.collect::<Vec<_>>().join(" and ")
}

/// With the range, where there is one.
fn show(spread: Spread) -> String {
    if spread.min < spread.max { spread.show(small) } else { small(spread.median) }
}

fn ratio_to(scenario: &Scenario, server: usize) -> Option<f64> {
    Some(scenario.cpu(0)?.median / scenario.cpu(server)?.median).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::groups::GROUPS;
    use super::*;

    #[test]
    fn tables_have_a_cell_for_each_server_also_without_measurements() {
        let mut scenarios = GROUPS[3].scenarios(0.01, &[64]).unwrap();
        scenarios.iter_mut().for_each(|scenario| scenario.samples = vec![Vec::new(); 3]);
        let parts = [Part { group: &GROUPS[3], keys: 10, scenarios }];
        let text = report(&parts, &["a".into(), "b".into(), "c".into()]);
        assert!(text.contains("| HDEL and HSET | 64 | – | – | – | – | – |\n"), "{text}");
        let tables = text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count());
        assert_eq!(tables.collect::<Vec<_>>(), [vec![8; 7], vec![5; 4]].concat(), "{text}");
    }
}
