//! A wrong system clock with the embedded store: log, health checks and metrics show it.

use std::fs;
use std::process::Command;

use tendot_testing::{run_checked, wait_until};

use crate::support::{TestDir, TestServer};

/// File with the seconds by which the system clock is ahead, for [`CLOCK_SOURCE`].
const OFFSET_VAR: &str = "TENDOT_TEST_CLOCK_OFFSET";

/// Library that is loaded before the C library and moves the system clock.
const CLOCK_SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    const char *path = getenv("TENDOT_TEST_CLOCK_OFFSET");
    if (result == 0 && clock == CLOCK_REALTIME && path) {
        char text[32] = {0};
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0) time->tv_sec += atol(text);
            close(file);
        }
    }
    return result;
}
"#;

/// Seconds by which the clock is moved: more than the lifetime of an idempotency key.
const SHIFT_SECONDS: i64 = 25 * 3_600;

/// Compiles the library.
fn build_clock(dir: &TestDir) -> String {
    let source = dir.write("clock.c", CLOCK_SOURCE);
    let library = dir.file("clock.so").display().to_string();
    run_checked(Command::new("cc").args(["-shared", "-fPIC", "-o", &library, &source]));
    library
}

#[test]
fn wrong_clock_is_shown() {
    let dir = TestDir::new();
    let library = build_clock(&dir);
    // Replaced at once: it is read at any time.
    let set_offset = |seconds: i64| {
        let draft = dir.write("draft", seconds.to_string());
        fs::rename(draft, dir.file("offset")).unwrap();
    };
    let start = || {
        let offset = dir.file("offset").display().to_string();
        TestServer::builder(&dir)
            .data("data")
            .demo()
            .envs([("LD_PRELOAD", library.clone()), (OFFSET_VAR, offset)])
            .start()
    };
    set_offset(0);
    let server = start();
    let readiness = || {
        let response = server.get("/readyz?write");
        (response.status, response.text().into_owned())
    };
    let skew = || server.metric("tendot_clock_skew_seconds");
    let ready = (200, "ready\n".to_owned());
    assert_eq!(readiness(), ready);
    assert!(skew().abs() < 60.0);
    for (offset, expected, is_logged) in
        // The log lines come every ten seconds.
        [(SHIFT_SECONDS, 90_000.0, true), (-SHIFT_SECONDS, -90_000.0, false)]
    {
        set_offset(offset);
        assert_eq!(readiness(), (200, "ready, warning: system clock out of sync\n".to_owned()));
        assert!((skew() - expected).abs() < 60.0, "{}", skew());
        if is_logged {
            server.wait_for_log("system clock is out of sync");
        }
        set_offset(0);
        wait_until("the clock is right again", || readiness() == ready);
        if is_logged {
            server.wait_for_log("system clock is in sync again");
        }
    }
    let request = server.put_handle("10.5555/last", "https://example.org/");
    assert!(server.connect().exchange(&request).unwrap().status < 300);
    assert_eq!(server.terminate(), Some(0));

    // Wrong from the start.
    set_offset(SHIFT_SECONDS);
    let server = start();
    server.wait_for_startup_log("if it was not that long ago, the system clock is ahead");
    assert_eq!(server.terminate(), Some(0));
    set_offset(-SHIFT_SECONDS);
    start().wait_for_startup_log("system clock is behind the last change");
}
