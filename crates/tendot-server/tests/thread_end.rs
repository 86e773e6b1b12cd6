//! Threads that answer datagrams have ended before the store is closed: see the test of this name of `tendot-store`.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a function of the C library is replaced")]

mod native;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use native::{resolution, site};
use tendot_registry::{Registry, Settings};
use tendot_server::native::{Limits, Native, NativeSockets, listen};
use tendot_store::Embedded;
use tokio::sync::oneshot;

/// Threads that have come to their end.
static ENDED: AtomicU32 = AtomicU32::new(0);

/// Comes from the store's engine at the end of a thread that has read, and takes its time.
#[unsafe(no_mangle)]
extern "C" fn getpid() -> libc::pid_t {
    let mut name = [0_u8; 16];
    // SAFETY: so many bytes are written at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    if name.starts_with(b"datagrams") {
        std::thread::sleep(Duration::from_millis(100));
        ENDED.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: asks for a number.
    unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t }
}

#[test]
fn of_a_service() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::new(Embedded::open(directory.path()).unwrap(), Settings::default());
    let native = Arc::new(Native::new(Arc::new(registry), site()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sockets = NativeSockets::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = sockets.address().unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let ended = async move { drop(ended.await) };
        let served = tokio::spawn(listen(sockets, native, Limits::default(), ended));
        let question = resolution("10.1/name").to_bytes().unwrap();
        let asked = tokio::task::spawn_blocking(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket.send_to(&question, address).unwrap();
            socket.recv(&mut [0; 1_000]).unwrap();
        });
        asked.await.unwrap();
        drop(end);
        served.await.unwrap().unwrap();
    });
    assert_eq!(ENDED.load(Ordering::SeqCst), 1);
}
