//! A headless browser, controlled by the DevTools protocol over two pipes. A message is JSON and a zero byte.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Enough for a browser to start on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(90);

/// A browser with one page.
pub struct Browser {
    process: Child,
    profile: PathBuf,
    to: std::fs::File,
    from: Receiver<Value>,
    session: Option<String>,
    next: u64,
    /// Errors that the page has reported so far.
    pub complaints: Vec<String>,
    /// URLs that the page has requested so far.
    pub requests: Vec<String>,
}

impl Browser {
    /// The browser's program in PATH.
    pub fn program() -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|directory| directory.join("chromium")).find(|file| file.is_file())
    }

    /// Starts the browser with an empty page.
    pub fn start() -> Result<Browser, String> {
        let program = Browser::program().ok_or("chromium is not installed")?;
        let profile = profile();
        let ((child_reads, to), (from, child_writes)) = (pipe()?, pipe()?);
        let mut command = Command::new(program);
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"])
            .args(["--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let (reads, writes) = (child_reads.as_raw_fd(), child_writes.as_raw_fd());
        // SAFETY: only dup2 is called between fork and exec, on descriptors that stay open until then. Both are above 4
        // (see `pipe`), so neither call overwrites the other's source.
        unsafe {
            command.pre_exec(move || {
                for (descriptor, number) in [(reads, 3), (writes, 4)] {
                    if libc::dup2(descriptor, number) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let process = command.spawn().map_err(|error| format!("chromium does not start: {error}"))?;
        let mut browser = Browser {
            process,
            profile,
            to: to.into(),
            from: messages(from.into()),
            session: None,
            next: 1,
            complaints: Vec::new(),
            requests: Vec::new(),
        };
        browser.attach()?;
        Ok(browser)
    }

    fn attach(&mut self) -> Result<(), String> {
        let targets = self.call("Target.getTargets", json!({}))?;
        let infos = targets["targetInfos"].as_array().cloned().unwrap_or_default();
        let page = infos.iter().find(|target| target["type"] == "page").ok_or("chromium has no page")?;
        let target = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", target)?;
        self.session = attached["sessionId"].as_str().map(str::to_string);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(())
    }

    /// Opens a file in a window of this width, in a theme.
    pub fn open(&mut self, file: &Path, width: u32, theme: &str) -> Result<(), String> {
        let screen = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", screen)?;
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        self.call("Emulation.setEmulatedMedia", media)?;
        let file = file.canonicalize().map_err(|error| format!("{}: {error}", file.display()))?;
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }))?;
        let start = Instant::now();
        while self.ask("document.readyState + ' ' + location.protocol")? != "complete file:" {
            if start.elapsed() > PATIENCE {
                return Err("the page does not become complete".to_string());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The value of an expression in the page.
    pub fn ask(&mut self, expression: &str) -> Result<Value, String> {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", asked)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(format!("the page's answer is an exception: {details}")),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Sends a command and returns its result. Records errors and requests that arrive before the result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        let number = self.next;
        self.next += 1;
        let mut message = json!({ "id": number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).map_err(|error| format!("{method}: {error}"))?;
        loop {
            let message = self.from.recv_timeout(PATIENCE).map_err(|error| format!("{method}: no answer: {error}"))?;
            if message["id"] == number {
                return match message.get("error") {
                    Some(error) => Err(format!("{method}: {error}")),
                    None => Ok(message["result"].clone()),
                };
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                self.complaints.push(parameters.to_string());
            }
            "Network.requestWillBeSent" => {
                self.requests.extend(parameters["request"]["url"].as_str().map(str::to_string));
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // The browser's children may still write there. It is a temporary directory, so leftovers do no harm.
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// A directory for each browser, because two cannot share a profile.
fn profile() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chromium-{}-{number}", std::process::id()))
}

/// The read end and the write end of a pipe. Neither is inherited, and both are above the browser's 3 and 4.
fn pipe() -> Result<(OwnedFd, OwnedFd), String> {
    let mut ends = [0; 2];
    // SAFETY: the call writes two new descriptors, which nothing else owns.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(format!("no pipe: {}", std::io::Error::last_os_error()));
    }
    let moved = ends.map(|end| {
        // SAFETY: the descriptor is ours. The copy gets its own owner, and dropping the original closes it.
        unsafe {
            let original = OwnedFd::from_raw_fd(end);
            let copy = libc::fcntl(original.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 10);
            (copy >= 0).then(|| OwnedFd::from_raw_fd(copy))
        }
    });
    match moved {
        [Some(read), Some(write)] => Ok((read, write)),
        _ => Err(format!("no descriptors: {}", std::io::Error::last_os_error())),
    }
}

/// Starts a thread that splits the stream into messages.
fn messages(mut from: std::fs::File) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut buffer, mut part) = (Vec::new(), [0; 65536]);
        while let Ok(count @ 1..) = from.read(&mut part) {
            buffer.extend_from_slice(&part[..count]);
            while let Some(end) = buffer.iter().position(|byte| *byte == 0) {
                let message: Vec<u8> = buffer.drain(..=end).collect();
                if let Ok(value) = serde_json::from_slice(&message[..end])
                    && sender.send(value).is_err()
                {
                    return;
                }
            }
        }
    });
    receiver
}
