//! OpenMetrics as Prometheus's older text (version 0.0.4), for who does not ask for OpenMetrics: a browser, curl,
//! `promtool check metrics`.
//!
//! What differs in what is written here: the family of a counter or of texts is called as its samples are, `…_total` and
//! `…_info`, texts are a gauge, and there are neither units nor an end.

/// The text in the older form.
pub(super) fn of(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    // Descriptions come before the type that decides on the name.
    let mut help = None;
    for line in text.lines() {
        if !line.starts_with("# ") {
            plain.push_str(line);
            plain.push('\n');
            continue;
        }
        let mut words = line.splitn(4, ' ').skip(1);
        match (words.next(), words.next(), words.next()) {
            (Some("HELP"), Some(name), Some(text)) => help = Some((name, text)),
            (Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                if let Some((_, text)) = help.take().filter(|(of, _)| *of == name) {
                    plain += &format!("# HELP {name}{suffix} {text}\n");
                }
                plain += &format!("# TYPE {name}{suffix} {kind}\n");
            }
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_samples_name_and_the_rest_stays() {
        let text = "# HELP a_bytes What a is.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\n\
                    a_bytes_total{x=\"# y\"} 7\n# HELP b What b is.\n# TYPE b gauge\nb 1.5\n\
                    # HELP c What c is.\n# TYPE c info\nc_info{of=\"x\"} 1\n# EOF\n";
        let plain = "# HELP a_bytes_total What a is.\n# TYPE a_bytes_total counter\n\
                     a_bytes_total{x=\"# y\"} 7\n# HELP b What b is.\n# TYPE b gauge\nb 1.5\n\
                     # HELP c_info What c is.\n# TYPE c_info gauge\nc_info{of=\"x\"} 1\n";
        assert_eq!(of(text), plain);
    }
}
