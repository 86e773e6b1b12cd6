//! Proxies and shared caches in front of a server: nginx and Varnish.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tendot_testing::wait_until;

/// A running nginx, killed on drop.
pub(crate) struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Nginx {
    /// Starts nginx with servers, such as a file of `deploy/`, in which ports and paths are replaced.
    pub(crate) fn start(
        directory: &Path,
        address: SocketAddr,
        shipped: &str,
        replacements: &[(&str, String)],
    ) -> Self {
        let mut shipped = shipped.to_owned();
        for (from, to) in replacements {
            assert!(shipped.contains(from), "{from} is not in the file");
            shipped = shipped.replace(from, to);
        }
        fs::write(directory.join("tendot.conf"), shipped).unwrap();
        let dir = directory.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {dir}/{kind};\n"))
            .collect();
        let main_config = format!(
            "daemon off;\npid {dir}/pid;\nerror_log {dir}/error.log;\nmaster_process off;\nevents {{}}\n\
             http {{\naccess_log off;\n{temporary}include {dir}/tendot.conf;\n}}\n"
        );
        fs::write(directory.join("nginx.conf"), main_config).unwrap();
        let nginx = Command::new("nginx")
            .arg("-p")
            .arg(directory)
            .args(["-c", "nginx.conf", "-e", "error.log"])
            .stderr(Stdio::inherit())
            .spawn()
            .expect("`cargo xtask test` installs nginx-light");
        let nginx = Self(nginx);
        let log = directory.join("error.log");
        wait_until(&format!("nginx accepts connections; its log is {}", log.display()), || {
            TcpStream::connect(address).is_ok()
        });
        nginx
    }
}

/// A running Varnish, killed on drop.
pub(crate) struct Varnish(Child);

impl Drop for Varnish {
    fn drop(&mut self) {
        // The manager stops its worker on SIGTERM; killed, it would leave it behind.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

impl Varnish {
    /// Starts Varnish with its built-in configuration in front of `server`. Expired responses are not served.
    pub(crate) fn start(directory: &Path, address: SocketAddr, server: SocketAddr) -> Self {
        let log = fs::File::create(directory.join("varnish.log")).unwrap();
        let varnish = Command::new("varnishd")
            .args(["-F", "-j", "none", "-s", "malloc,16m", "-p", "default_grace=0", "-T", "none"])
            .arg("-n")
            .arg(directory.join("varnish"))
            .args(["-a", &address.to_string(), "-b", &server.to_string()])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("`cargo xtask test` installs varnish");
        let varnish = Self(varnish);
        let log = directory.join("varnish.log");
        wait_until(&format!("varnish accepts connections; its log is {}", log.display()), || {
            TcpStream::connect(address).is_ok()
        });
        varnish
    }
}
