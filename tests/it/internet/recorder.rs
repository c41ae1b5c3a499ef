//! Listeners that keep the exact bytes of each connection: the usual assertion is that one got nothing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::internet;

/// A TCP or UDP listener in the internet; it lives until the tests end.
#[derive(Clone, Default)]
pub struct Recorder {
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    /// Listens on `address` (of `11.22.44.0/24`, say) and answers each connection's first bytes with `reply`.
    pub fn tcp(address: &str, reply: &'static [u8]) -> Self {
        let (recorder, address) = (Self::default(), address.parse::<SocketAddr>().unwrap());
        let task = recorder.clone();
        internet().run(async move {
            let listener = TcpListener::bind(address).await.unwrap();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(task.clone().keep(stream, reply));
                }
            });
        });
        recorder
    }

    /// Keeps each datagram that comes to `address`, and sends it back.
    pub fn udp(address: &str) -> Self {
        let (recorder, address) = (Self::default(), address.parse::<SocketAddr>().unwrap());
        let seen = recorder.seen.clone();
        internet().run(async move {
            let socket = UdpSocket::bind(address).await.unwrap();
            tokio::spawn(async move {
                let mut packet = [0; 65_536];
                while let Ok((length, peer)) = socket.recv_from(&mut packet).await {
                    seen.lock().unwrap().push(packet[..length].to_vec());
                    let _ = socket.send_to(&packet[..length], peer).await;
                }
            });
        });
        recorder
    }

    /// The bytes of each connection or datagram so far; a connection without a byte is an empty entry.
    pub fn seen(&self) -> Vec<Vec<u8>> {
        self.seen.lock().unwrap().clone()
    }

    /// Panics if anything came at all.
    pub fn assert_nothing(&self) {
        let seen = self.seen();
        assert!(seen.is_empty(), "the recorder outside got {} connections, the first with {:?}", seen.len(), {
            String::from_utf8_lossy(&seen[0])
        });
    }

    async fn keep(self, mut stream: TcpStream, reply: &'static [u8]) {
        let row = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(Vec::new());
            seen.len() - 1
        };
        let mut buffer = [0; 16_384];
        let mut reply = Some(reply);
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            self.seen.lock().unwrap()[row].extend(&buffer[..length]);
            if let Some(reply) = reply.take() {
                let _ = stream.write_all(reply).await;
            }
        }
    }
}
