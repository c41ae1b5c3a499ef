use super::*;
use std::sync::Mutex;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink for Shared {
    fn make_room(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Takes what is under way and has no room for more.
struct Filling(Shared);

impl Write for Filling {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.write(buf)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink for Filling {
    fn make_room(&mut self) -> std::io::Result<()> {
        Err(std::io::Error::from_raw_os_error(libc::ENOSPC))
    }
}

struct Full;

impl Sink for Full {
    fn make_room(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::Error::from_raw_os_error(libc::ENOSPC))
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn denied(reason: &str) -> AuditEvent {
    let authority = Authority::parse("a.test:8443", 443).unwrap();
    let destination = Destination { authority, scheme: Scheme::Https, dialled: None };
    let mut event = AuditEvent::new(Some(SandboxId::from_bits(1)), "connect", Some(&destination));
    event.path = Some("/a?key=v".parse().unwrap());
    event.deny("host_not_listed", reason.into(), None);
    event
}

#[test]
fn a_row_is_one_line_and_is_written_when_it_is_dropped() {
    let sink = Shared::default();
    let (audit, writer) = start(Some(Box::new(sink.clone())), false).unwrap();
    runtime().block_on(async {
        let mut row = audit.open(denied("no\n{\"verdict\":\"permit\"}\u{202e}")).await.unwrap();
        row.traffic.up.store(7, Ordering::Relaxed);
        row.head(403);
        drop(row);
        drop(audit.open(denied("no")).await.unwrap());
        drop(audit.open(denied("no")).await.unwrap());
    });
    drop(audit);
    let summary = writer.finish();
    assert_eq!(summary.refused.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [1, 2]);
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 3);
    let row: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&row["bytes_up"], &row["status"], &row["path"]), (&7.into(), &403.into(), &"/a".into()));
    assert_eq!((&row["authority"], &row["sandbox"]), (&"a.test:8443".into(), &"0000000000000001".into()));
}

#[test]
fn a_full_disk_refuses_what_follows() {
    let (audit, writer) = start(Some(Box::new(Full)), false).unwrap();
    let broken = Arc::clone(&audit.broken);
    runtime().block_on(async { drop(audit.open(denied("no")).await.unwrap()) });
    while !broken.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    runtime().block_on(async { assert_eq!(audit.open(denied("no")).await.err(), Some(AuditUnavailable)) });
    drop(audit);
    assert!(writer.finish().error.is_some());
}

#[test]
fn a_disk_that_fills_up_still_takes_what_is_under_way() {
    let sink = Shared::default();
    let (audit, writer) = start(Some(Box::new(Filling(sink.clone()))), false).unwrap();
    let broken = Arc::clone(&audit.broken);
    runtime().block_on(async {
        let under_way = audit.open(denied("second")).await.unwrap();
        drop(audit.open(denied("first")).await.unwrap());
        while !broken.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        assert_eq!(audit.open(denied("third")).await.err(), Some(AuditUnavailable));
        drop(under_way);
    });
    drop(audit);
    assert!(writer.finish().error.is_some());
    assert_eq!(String::from_utf8(sink.0.lock().unwrap().clone()).unwrap().lines().count(), 2);
}

#[test]
fn a_full_queue_makes_a_request_wait_and_then_refuses_it() {
    let (queue, mut rows) = mpsc::channel::<Box<AuditEvent>>(1);
    let audit = Audit { queue, broken: Arc::default() };
    runtime().block_on(async {
        let first = audit.open(denied("first")).await.unwrap();
        assert_eq!(audit.open(denied("second")).await.err(), Some(AuditUnavailable));
        drop(first);
        assert_eq!(rows.recv().await.unwrap().reason.as_deref(), Some("first"));
        assert!(audit.open(denied("third")).await.is_ok());
    });
}

#[test]
fn the_summary_is_bounded() {
    let mut summary = Summary::default();
    let mut counts = HashMap::new();
    for i in 0..100 {
        summary.note(&denied(&i.to_string()), &mut counts);
    }
    assert_eq!((summary.refused.len(), summary.more), (64, 36));
}

#[test]
fn long_text_is_cut_at_a_character_border() {
    assert_eq!(cut(&"\u{20ac}".repeat(1000)).len(), 2046);
}

#[test]
fn control_characters_that_json_leaves_are_replaced() {
    assert_eq!(cut("a\u{7f}\u{80}\u{9b}\u{9f}\u{a0}"), "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{a0}");
    assert_eq!(serde_json::to_string(&cut("\u{1b}[31m\n")).unwrap(), r#""\u001b[31m\n""#);
}
