//! `doctor`: tries every layer of a sandbox for real and says what is missing and how to mend it.

use std::io::Write;

use crate::launcher::probe::{Health, Part, layers};
use crate::launcher::{LaunchError, invoking_user};

/// Writes one line for each layer, with a cure below where one is missing. The answer is the exit code: 0 if `run` would
/// work, else 1. Call it on the main thread, before any other exists.
pub fn run(out: &mut dyn Write) -> u8 {
    // By sudo a run would be that of the user behind it, and other rules hold for that user.
    if let Err(error) = invoking_user().and_then(|user| user.assume()) {
        let _ = writeln!(out, "{error}");
        return 1;
    }
    let findings = layers();
    let report = report(&findings);
    // A reader that is gone does not change the health of the machine.
    let _ = out.write_all(report.as_bytes());
    u8::from(findings.iter().any(|(_, health)| matches!(health, Health::Missing(_))))
}

fn report(findings: &[(Part, Health)]) -> String {
    let mut text = String::new();
    for (part, health) in findings {
        let (state, note) = match health {
            Health::Works(note) => ("ok", note.clone()),
            Health::Lesser(note) => ("lesser", note.clone()),
            Health::Missing(error) => ("missing", told(error)),
        };
        text.push_str(format!("{:<28}{state:<9}{note}", name(*part)).trim_end());
        text.push('\n');
    }
    let missing = findings.iter().filter(|(_, health)| matches!(health, Health::Missing(_))).count();
    text.push_str(&match missing {
        0 => "\n`sandbox-proxy run` works here\n".to_owned(),
        _ => "\n`sandbox-proxy run` does not work here: what is missing comes first\n".to_owned(),
    });
    text
}

/// Cause and cure, the cure on its own lines and set in.
fn told(error: &LaunchError) -> String {
    error.to_string().replace('\n', "\n    ")
}

fn name(part: Part) -> &'static str {
    match part {
        Part::Namespaces => "namespaces",
        Part::Proc => "fresh /proc",
        Part::Network => "lo and routes",
        Part::Ipv6 => "IPv6",
        Part::Tproxy => "nf_tables TPROXY",
        Part::Redirect => "nf_tables REDIRECT",
        Part::Listeners => "listeners",
        Part::Mounts => "private and masked files",
        Part::Overlay => "overlay",
        Part::Privileges => "capabilities",
        Part::Landlock => "Landlock",
        Part::Files => "limits on files",
        Part::Seccomp => "seccomp",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_layer_is_told_with_its_cure() {
        let error = LaunchError::Layer {
            layer: crate::launcher::Layer::Proc,
            cause: "mounting a fresh /proc: eperm".to_owned(),
            hint: Some("unmask it".to_owned()),
        };
        let findings = [(Part::Namespaces, Health::Works(String::new())), (Part::Proc, Health::Missing(error))];
        let report = report(&findings);
        assert!(
            report.starts_with("namespaces                  ok\nfresh /proc                 missing  "),
            "{report}"
        );
        assert!(report.contains("\n    hint: unmask it\n") && report.contains("does not work here"), "{report}");
    }
}
