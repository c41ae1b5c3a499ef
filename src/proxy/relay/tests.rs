//! A relay between real sockets.

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(upstream::connect_to(address), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ seed).collect()
}

/// Both directions at once, of such lengths that one is spliced and the other is not, with a slow reader; each one's end is
/// passed on while the other goes on.
#[tokio::test]
async fn every_byte_arrives_and_each_side_ends_alone() {
    for (up, down) in
        [(0, 0), (1, CHUNK), (5 * BULK as usize + 77, 3), (CHUNK + 1, 4 * BULK as usize), (3 << 20, 3 << 20)]
    {
        let ((mut client, inner), (outer, mut server)) = (pair().await, pair().await);
        let (counted_up, counted_down) = (AtomicU64::new(0), AtomicU64::new(0));
        let relay = async {
            let (up, down) = ((&inner, &outer), (&outer, &inner));
            tokio::try_join!(pump(up, &counted_up, &PIPES_FREE), pump(down, &counted_down, &PIPES_FREE)).unwrap();
        };
        let from_client = bytes(up, 1);
        let from_server = bytes(down, 2);
        let talk = async {
            let (mut got_up, mut got_down) = (Vec::new(), Vec::new());
            let (mut client_read, mut client_write) = client.split();
            let (mut server_read, mut server_write) = server.split();
            let say = async {
                client_write.write_all(&from_client).await.unwrap();
                client_write.shutdown().await.unwrap();
            };
            let answer = async {
                // Only when the other direction has ended.
                server_read.read_to_end(&mut got_up).await.unwrap();
                server_write.write_all(&from_server).await.unwrap();
                server_write.shutdown().await.unwrap();
            };
            let hear = async { client_read.read_to_end(&mut got_down).await.unwrap() };
            tokio::join!(say, answer, hear);
            assert!(got_up == bytes(up, 1) && got_down == bytes(down, 2), "{up} {down}");
        };
        tokio::join!(relay, talk);
        assert_eq!((counted_up.into_inner(), counted_down.into_inner()), (up as u64, down as u64));
    }
}

/// Where there are no pipes left, bytes are copied.
#[tokio::test]
async fn without_a_pipe_it_copies() {
    let ((mut client, inner), (outer, mut server)) = (pair().await, pair().await);
    let (count, none) = (AtomicU64::new(0), Semaphore::new(0));
    let sent = bytes(3 * BULK as usize, 3);
    let say = async {
        client.write_all(&sent).await.unwrap();
        client.shutdown().await.unwrap();
    };
    let mut got = Vec::new();
    let (_, relayed, read) = tokio::join!(say, pump((&inner, &outer), &count, &none), server.read_to_end(&mut got));
    relayed.unwrap();
    assert_eq!((read.unwrap(), got == sent), (sent.len(), true));
}
