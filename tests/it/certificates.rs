//! Client certificates: shown to the host that they are bound to, and to nobody else.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::cases;
use crate::internet::internet;
use crate::sandbox::{Output, Run};

cases![
    a_certificate_is_shown_where_it_is_bound,
    a_certificate_and_a_key_that_do_not_belong_together,
    a_pem_text_goes_into_no_header,
];

/// The certificates that a server was shown, one entry for each request.
type Shown = Arc<Mutex<Vec<Vec<u8>>>>;

/// A server at an address of 11.22.44.0/24 that answers whoever shows a certificate of the tests' root.
fn server(address: &str, names: &[&str]) -> Shown {
    let (shown, address) = (Shown::default(), address.parse::<SocketAddr>().unwrap());
    names.iter().for_each(|name| internet().dns.set(name, &[&address.ip().to_string()]));
    let (log, acceptor) = (shown.clone(), TlsAcceptor::from(internet().pki.server_for_clients()));
    internet().run(async move {
        let listener = TcpListener::bind(address).await.unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(acceptor.clone(), stream, log.clone()));
            }
        });
    });
    shown
}

async fn answer(acceptor: TlsAcceptor, stream: tokio::net::TcpStream, log: Shown) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    let mut request = Vec::new();
    while stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
        while let Some(end) = memchr::memmem::find(&request, b"\r\n\r\n") {
            request.drain(..end + 4);
            log.lock().unwrap().push(certificate.clone());
            let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi\n";
            if stream.write_all(reply).await.is_err() {
                return;
            }
        }
    }
}

/// A run with a certificate and a key bound to HOST, both in files.
fn bound(hosts: &[&str], certificate: &str, key: &str) -> Run {
    let run = Run::new();
    let directory = run.outside().join("identity");
    fs::create_dir(&directory).unwrap();
    for (name, text) in [("certificate", certificate), ("key", key)] {
        fs::write(directory.join(name), text).unwrap();
        fs::set_permissions(directory.join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let host = hosts[0];
    let policy = format!(
        "[network]\nmode = \"allow\"\nhosts = {hosts:?}\n[[header_bindings]]\nkind = \"client_certificate\"\nhost = \"{host}\"\n\
         certificate = \"CERTIFICATE\"\nsecret_name = \"KEY\"\n[secrets.CERTIFICATE]\nfile = \"identity/certificate\"\n\
         [secrets.KEY]\nfile = \"identity/key\"\n"
    );
    let path = run.outside().join("p.toml");
    fs::write(&path, policy).unwrap();
    run.arg("--policy").arg(&path.display().to_string())
}

fn statuses(output: &Output) -> Vec<&str> {
    output.expect_code(0);
    output.stdout.lines().collect()
}

/// Over both protocols, twice on one connection; the same server by another name is shown nothing.
fn a_certificate_is_shown_where_it_is_bound() {
    let (host, other) = ("shown.certificate.allowed.test", "other.certificate.allowed.test");
    let shown = server("11.22.44.80:443", &[host, other]);
    let (certificate, key) = internet().pki.client("alice");
    let script = format!(
        "for url in https://{host}/ https://{host}/two https://{other}/; do curl -sS -o body -w '%{{http_code}}\\n' $url; cat body >> got; done
         curl -sS --http1.1 -o body -w '%{{http_code}}\\n' https://{host}/; cat /proc/*/environ $PWD/../identity/* > dump 2>/dev/null; true"
    );
    let run = bound(&[host, other], &certificate, &key);
    let work = run.work();
    let output = run.script(&script).run();
    assert_eq!(statuses(&output), ["200", "200", "502", "200"], "{output:#?}");
    let der = rustls::pki_types::pem::PemObject::from_pem_slice(certificate.as_bytes()).unwrap();
    let der: rustls::pki_types::CertificateDer<'_> = der;
    assert_eq!(*shown.lock().unwrap(), [der.as_ref(), der.as_ref(), der.as_ref()]);
    let reason = output.audit.iter().find_map(|row| row["reason"].as_str()).unwrap();
    assert!(reason.contains("CertificateRequired"), "{reason}");
    for name in ["got", "dump"] {
        let text = String::from_utf8_lossy(&fs::read(work.join(name)).unwrap()).into_owned();
        assert!(key.lines().filter(|line| !line.starts_with('-')).all(|line| !text.contains(line)), "{name}");
    }
}

fn a_certificate_and_a_key_that_do_not_belong_together() {
    let host = "mixed.certificate.allowed.test";
    let shown = server("11.22.44.81:443", &[host]);
    let ((certificate, _), (_, key)) = (internet().pki.client("bob"), internet().pki.client("eve"));
    let output = bound(&[host], &certificate, &key).script(&format!("curl -sS -i https://{host}/")).run();
    output.expect_code(0).expect_stdout("502").expect_stdout("credential_unavailable");
    let reason = output.audit.iter().find_map(|row| row["reason"].as_str()).unwrap();
    assert!(reason.ends_with("the key is not that of the certificate"), "{reason}");
    assert!(shown.lock().unwrap().is_empty());
}

fn a_pem_text_goes_into_no_header() {
    let host = "pem.certificate.allowed.test";
    let (_, key) = internet().pki.client("carol");
    let run = Run::new().allow(host).bind(&format!("{host} X-Key: {{KEY}}")).secret_env("KEY", &key);
    let output = run.script(&format!("curl -sS -i https://{host}/echo")).run();
    output.expect_code(0).expect_stdout("502").expect_stdout("credential_unavailable");
    assert!(internet().web.requests(host).is_empty());
}
