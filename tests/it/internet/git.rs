//! The real `git http-backend` as `git.test`, with one repository that may be pushed to.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::https::{Reply, plain};

/// Makes `project.git` with one commit on main, and nothing else; returns the root of the repositories.
pub fn make(root: &Path) -> PathBuf {
    std::fs::create_dir_all(root).unwrap();
    let script = "set -e
        git init -q --bare -b main project.git
        git -C project.git config http.receivepack true
        git init -q -b main seed && cd seed
        echo 'hello from git.test' > README && git add README
        git -c user.name=t -c user.email=t@git.test commit -q -m first
        git push -q ../project.git main";
    let made = git(root, "sh", &["-c", script]).output().expect("sh runs");
    assert!(
        made.status.success(),
        "make a repository (apt-get install git): {}",
        String::from_utf8_lossy(&made.stderr)
    );
    root.into()
}

/// The commit that a branch of the upstream's repository is at.
pub fn tip(branch: &str) -> Option<String> {
    let root = crate::rig::base().join("git");
    let reference = format!("refs/heads/{branch}");
    let output = git(&root, "git", &["-C", "project.git", "rev-parse", "--verify", "-q", &reference]).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Hands a request to `git http-backend` as a CGI program.
pub async fn serve(root: &Path, request: Request<Incoming>) -> Response<Reply> {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await.map(|body| body.to_bytes()) else {
        return plain(StatusCode::BAD_REQUEST, Reply::text("the body broke off\n"));
    };
    let header =
        |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let mut command = git(root, "git", &["http-backend"]);
    command
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_ADDR", "11.22.33.1");
    let run = tokio::task::spawn_blocking(move || run(command, &body)).await;
    match run {
        Ok(Ok(output)) => response(&output.stdout),
        _ => plain(StatusCode::INTERNAL_SERVER_ERROR, Reply::text("git http-backend did not run\n")),
    }
}

fn run(mut command: Command, body: &[u8]) -> std::io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut stdin = child.stdin.take().expect("it is piped");
    std::thread::scope(|scope| {
        // A backend that answers early may leave part of the body unread.
        scope.spawn(move || drop(stdin.write_all(body)));
        child.wait_with_output()
    })
}

fn response(output: &[u8]) -> Response<Reply> {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(output.len());
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let body = output.get(end + 4..).unwrap_or_default().to_vec();
    let mut response = plain(StatusCode::OK, Reply::text(body));
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        if name.eq_ignore_ascii_case("status") {
            *response.status_mut() = value[..3].parse().unwrap();
        } else {
            let name: HeaderName = name.parse().unwrap();
            response.headers_mut().append(name, HeaderValue::from_str(value).unwrap());
        }
    }
    response
}

fn git(root: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(root)
        .env_clear()
        .env("PATH", crate::sandbox::PATH)
        .env("HOME", root)
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command
}
