//! Shutdown of the UDP threads: all have ended before the store closes. A separate test program, because it replaces `getpid`.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a function of the C library is replaced")]

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tendot_proto::record::Site;
use tendot_proto::{Handle, Message, Now};
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::native::{NativeLimits, NativeServer, NativeSockets, OwnSite, serve};
use tendot_store::{AnyStore, EmbeddedStore};
use tendot_testing::handle_keys::{handle_net_file, private_key};
use tendot_testing::{WAIT_TIMEOUT, ram_dir};
use tokio::sync::oneshot;

/// UDP threads that have ended.
static ENDED: AtomicU32 = AtomicU32::new(0);

/// LMDB calls this at the end of a thread that has read from the store.
#[unsafe(no_mangle)]
extern "C" fn getpid() -> libc::pid_t {
    let mut name = [0_u8; 16];
    // SAFETY: at most 16 bytes are written.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    if name.starts_with(b"udp-worker") {
        // Long enough that a listener that does not wait for the thread would be faster.
        std::thread::sleep(Duration::from_millis(100));
        ENDED.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: the system call has no arguments.
    unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t }
}

#[test]
fn udp_threads_end_before_the_store_closes() {
    let directory = ram_dir();
    let store = AnyStore::from(EmbeddedStore::open(directory.path()).unwrap());
    let site = Site::from_json(&handle_net_file("siteinfo.json")).unwrap();
    let site = OwnSite::new(site, &private_key("privkey.bin")).unwrap();
    let registry = Arc::new(Registry::new(store, RegistrySettings::default()));
    let native = Arc::new(NativeServer::new(registry, site));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sockets = NativeSockets::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = sockets.address().unwrap();
        let (shutdown, is_shut_down) = oneshot::channel::<()>();
        let is_shut_down = async move { drop(is_shut_down.await) };
        let listener = tokio::spawn(serve(sockets, native, NativeLimits::default(), is_shut_down));
        let now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };
        let request = Message::resolution(Handle::from("10.1/name"), 7, now).to_bytes().unwrap();
        let exchange = tokio::task::spawn_blocking(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
            socket.send_to(&request, address).unwrap();
            socket.recv(&mut [0; 1_000]).unwrap();
        });
        exchange.await.unwrap();
        drop(shutdown);
        listener.await.unwrap().unwrap();
    });
    assert_eq!(ENDED.load(Ordering::SeqCst), 1);
}
