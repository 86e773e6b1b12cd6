//! Socket activation and readiness notification of systemd.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use tendot_testing::WAIT_TIMEOUT;

use crate::support::{TENDOT, TestDir, TestServer, stderr, tendot};

#[test]
fn socket_activation_and_notify() {
    let dir = TestDir::new();
    let notifications = UnixDatagram::bind(dir.file("notify")).unwrap();
    notifications.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
    let receive = || {
        let mut buffer = [0; 64];
        let length = notifications.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // The shell moves the socket to file descriptor 3, as systemd does, and sets LISTEN_PID to its own process id.
    let script = format!(
        "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=http \
         exec {TENDOT} serve --demo --store memory: --native off"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(dir.path()).env("NOTIFY_SOCKET", dir.file("notify"));
    let server = TestServer::from_command(command.stdin(OwnedFd::from(socket)), dir.path());
    assert_eq!(server.address(), address);
    assert_eq!(server.get("/10.5555/DEMO").status, 302);
    assert_eq!(receive(), "READY=1");
    server.signal("TERM");
    assert_eq!(receive(), "STOPPING=1");
    assert_eq!(server.wait(), Some(0));
}

/// Twice: the first server leaves the sockets in a state that the second can use.
#[test]
fn native_socket_activation() {
    let dir = TestDir::new();
    let (tcp, udp) = loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
            break (tcp, udp);
        }
    };
    let address = tcp.local_addr().unwrap();
    let command = |names: &str, count: u32| {
        let script = format!(
            "exec 3<&0 4<&1 0</dev/null 1>/dev/null; LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names} \
             exec {TENDOT} serve --demo --store memory: --http 127.0.0.1:0"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(dir.path());
        command.stdin(OwnedFd::from(tcp.try_clone().unwrap()));
        command.stdout(OwnedFd::from(udp.try_clone().unwrap()));
        command
    };
    for _ in 0..2 {
        let server = TestServer::from_command(&mut command("native:native", 2), dir.path());
        assert_eq!(server.get("/10.5555/DEMO").status, 302);
        for transport in ["--udp", "--tcp"] {
            let url = format!("hdl://{address}");
            let mut resolve = tendot();
            let output =
                resolve.args(["resolve", "--server", &url, transport, "10.5555/DEMO"]).output().unwrap();
            assert!(output.status.success(), "{transport}: {}", stderr(&output));
        }
        assert_eq!(server.terminate(), Some(0));
    }
    let output = command("native", 1).stderr(Stdio::piped()).output().unwrap();
    let message = stderr(&output);
    assert!(
        output.status.code() == Some(2)
            && message.contains("expected two systemd sockets named `native`, or none"),
        "{message}"
    );
}
