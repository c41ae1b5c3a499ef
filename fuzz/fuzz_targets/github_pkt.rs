//! What git sends and GitHub answers, in chunks of any size: a front that is read is the same however it comes, and what is forwarded
//! is what was read.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use sandbox_proxy::policy::github::git::advertisement::Advertisement;
use sandbox_proxy::policy::github::git::history::History;
use sandbox_proxy::policy::github::git::lfs;
use sandbox_proxy::policy::github::git::receive::{Commands, ObjectFormat, ReceiveRequest, Rest};
use sandbox_proxy::policy::github::git::report;
use sandbox_proxy::policy::github::push::check_name;

fuzz_target!(|input: (u8, &[u8])| {
    let (chunk, bytes) = (usize::from(input.0) + 1, input.1);
    let whole = front(bytes, bytes.len().max(1));
    assert_eq!(front(bytes, chunk), whole);
    if let Some(commands) = whole {
        for command in &commands.commands {
            check_name(&command.name).expect("a name");
        }
        report::refuse(&commands, &[], "note");
        let mut pack = Cursor::new(bytes);
        pack.set_position(commands.consumed as u64);
        judge(&mut pack, commands.capabilities.format);
    }
    judge(&mut Cursor::new(bytes), ObjectFormat::Sha1);
    assert_eq!(advertisement(bytes, chunk), advertisement(bytes, bytes.len().max(1)));
    let _ = lfs::request(bytes);
});

fn front(bytes: &[u8], chunk: usize) -> Option<Commands> {
    let mut request = ReceiveRequest::new();
    let mut after: Option<(Commands, Rest)> = None;
    for part in bytes.chunks(chunk) {
        match &mut after {
            Some((_, rest)) => rest.feed(part).ok()?,
            None => {
                if let Some(commands) = request.feed(part).ok()? {
                    let mut rest = Rest::after(&commands);
                    rest.feed(&request.fed()[commands.consumed..]).ok()?;
                    after = Some((commands, rest));
                }
            }
        }
    }
    let (commands, rest) = after?;
    rest.end().ok().map(|()| commands)
}

fn judge(pack: &mut Cursor<&[u8]>, format: ObjectFormat) {
    if let Ok(mut history) = History::read(pack, format) {
        let (old, new) = ("1".repeat(format.digits()), "2".repeat(format.digits()));
        history.judge(&old, &new);
    }
}

fn advertisement(bytes: &[u8], chunk: usize) -> Option<Vec<u8>> {
    let mut filter = Advertisement::new(true);
    let mut out = Vec::new();
    for part in bytes.chunks(chunk) {
        filter.feed(part, &mut out).ok()?;
    }
    filter.end().ok().map(|()| out)
}
