//! Prometheus and promtool, and HTTP within a host.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use net::{Namespace, Process, Tunnel};
use serde_json::Value;

use super::{PATIENCE, repository};

/// Where Prometheus is.
pub(super) const PROMETHEUS: &str = "127.0.0.1:9090";

/// A program of Prometheus, where `tests/need metrics` has it; `None`, and it is said, where it is not.
pub(super) fn of_prometheus(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&folders).chain(net::tools().map(|tools| tools.join("bin")));
    let found = folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        net::skip(&format!("there is no {name}: tests/need metrics"));
    }
    found
}

/// Head and body of what is answered to these words, if anything is.
pub(super) fn converse(mut stream: impl Read + Write, words: &str) -> Option<(String, String)> {
    stream.write_all(words.as_bytes()).ok()?;
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).ok()?;
    let text = String::from_utf8(heard).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

pub(super) fn asked_for(path: &str) -> String {
    format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n")
}

/// Asks for a path within a host.
pub(super) fn get(host: &Namespace, address: &str, path: &str) -> Option<(String, String)> {
    let stream = host.inside(|| TcpStream::connect(address)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    converse(stream, &asked_for(path))
}

/// What Prometheus answers to a path of its API.
pub(super) fn api(host: &Namespace, path: &str) -> Value {
    let (_, body) = get(host, PROMETHEUS, path).expect("an answer of Prometheus");
    let answer: Value =
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!(answer["status"], "success", "{path}: {answer}");
    answer["data"].clone()
}

/// What an expression comes to in Prometheus: the labels of each series, and its value.
pub(super) fn query(host: &Namespace, expression: &str) -> Vec<(BTreeMap<String, String>, String)> {
    let encoded: String = expression
        .bytes()
        .map(|byte| format!("%{byte:02x}"))
        .collect();
    let data = api(host, &format!("/api/v1/query?query={encoded}"));
    let series = data["result"].as_array().unwrap().iter();
    let one = |series: &Value| {
        let labels = serde_json::from_value(series["metric"].clone()).unwrap();
        (labels, series["value"][1].as_str().unwrap().to_owned())
    };
    series.map(one).collect()
}

/// A Prometheus that looks at both ends each second, with the alert rules that are installed.
pub(super) fn start(tunnel: &Tunnel, program: &Path, folder: &Path, targets: &[&str]) -> Process {
    let config = folder.join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\nscrape_configs:\n\
         - job_name: mpt\n  static_configs: [{{targets: {targets:?}}}]\n",
        repository("packaging/prometheus/mpt.rules.yml").display()
    );
    std::fs::write(&config, text).unwrap();
    let mut command = tunnel.hosts.a.command(program);
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("data").display()
        ))
        .arg(format!("--web.listen-address={PROMETHEUS}"))
        .arg("--log.level=warn");
    Process::start("prometheus", &command)
}

/// Runs promtool with these words and this on its input; returns what it said.
pub(super) fn promtool(program: &Path, words: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {words:?}: {said}");
    said.into_owned()
}
