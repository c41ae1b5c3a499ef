//! `pypi.test`, `npm.test` and `crates.test`: one package each, made at start, served from a directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use http::{Response, StatusCode};

use super::https::{Reply, plain};

/// Makes the packages below `root`.
pub fn make(root: &Path) -> PathBuf {
    let made = Command::new("/usr/bin/python3")
        .args(["-c", include_str!("packages.py")])
        .arg(root)
        .output()
        .expect("python3 is missing: apt-get install python3");
    assert!(made.status.success(), "make the packages: {}", String::from_utf8_lossy(&made.stderr));
    root.into()
}

/// Whether the host is one of the indices.
pub fn serves(host: &str) -> bool {
    ["pypi.test", "npm.test", "crates.test"].contains(&host)
}

/// A file of the host's tree, or 404.
pub fn serve(root: &Path, host: &str, path: &str) -> Response<Reply> {
    let file = root.join(host).join(path.trim_start_matches('/'));
    let file = if file.is_dir() { file.join("index.html") } else { file };
    if path.contains("..") || !file.is_file() {
        return plain(StatusCode::NOT_FOUND, Reply::text("no such package\n"));
    }
    let kind = match host {
        "pypi.test" if path.starts_with("/simple") => "text/html",
        "npm.test" if !path.ends_with(".tgz") => "application/json",
        _ => "application/octet-stream",
    };
    let mut response = plain(StatusCode::OK, Reply::text(std::fs::read(file).unwrap()));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static(kind));
    response
}
