//! Figures about threads and processes. Only Linux has them: on other systems everything builds, but the benchmark
//! refuses to start.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Whether the benchmark runs on this system.
pub const IS_SUPPORTED: bool = cfg!(target_os = "linux");

/// Makes this thread's sleeps exact: by default Linux adds up to 50 µs.
pub fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    {
        // If this fails, sleeps are slightly longer.
        let _ = nix::sys::prctl::set_timerslack(1);
    }
}

/// The CPU time of a process so far, with all its threads, including threads that have ended.
pub fn process_cpu(process: u32) -> Option<Duration> {
    #[cfg(target_os = "linux")]
    {
        let process = nix::unistd::Pid::from_raw(process.try_into().ok()?);
        let clock = nix::time::clock_getcpuclockid(process).ok()?;
        Some(nix::time::clock_gettime(clock).ok()?.into())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = process;
        None
    }
}

/// The peak memory of a process so far, in bytes (`VmHWM`).
pub fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Asks a process to end (`SIGTERM`).
pub fn terminate(process: u32) {
    if let Ok(process) = process.try_into() {
        let process = nix::unistd::Pid::from_raw(process);
        // The process may have ended by itself.
        let _ = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM);
    }
}

/// Waits until the load of the benchmark's own build has passed, for five minutes at most. Returns the load that is left.
pub fn settled_load() -> Option<f64> {
    let ends_at = Instant::now() + Duration::from_secs(300);
    loop {
        let load = load()?;
        if load < 0.2 * cores() as f64 || Instant::now() >= ends_at {
            return Some(load);
        }
        sleep(Duration::from_secs(5));
    }
}

/// The average number of processes that wanted a CPU over the last minute.
fn load() -> Option<f64> {
    let averages = std::fs::read_to_string("/proc/loadavg").ok()?;
    averages.split_whitespace().next()?.parse().ok()
}

/// The number of processors.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processors' name and number.
pub fn processors() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, name)| name.trim());
    format!("{} × {name}", cores())
}

/// The period of quotas in microseconds. Lambda's own is not documented.
const PERIOD: u64 = 20_000;

/// A limit of the CPU time of processes, by a control group. It needs root, and a `cpu` controller.
#[derive(Debug)]
pub struct Quota(PathBuf);

impl Quota {
    /// Creates a quota: a share of one core.
    pub fn new(share: f64) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let root = Path::new("/sys/fs/cgroup");
        let is_unified = root.join("cgroup.controllers").exists();
        let parent = if is_unified {
            root.to_owned()
        } else {
            root.join("cpu")
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let group = parent.join(format!("sqs-once-bench-{}-{number}", std::process::id()));
        let limited = || {
            let micros = (share * PERIOD as f64).round() as u64;
            if is_unified {
                fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
            }
            fs::create_dir(&group)?;
            if is_unified {
                return fs::write(group.join("cpu.max"), format!("{micros} {PERIOD}"));
            }
            fs::write(group.join("cpu.cfs_period_us"), PERIOD.to_string())?;
            fs::write(group.join("cpu.cfs_quota_us"), micros.to_string())
        };
        limited().with_context(|| {
            format!(
                "NOT MEASURED: this machine allows no CPU quota ({})",
                group.display()
            )
        })?;
        Ok(Self(group))
    }

    /// Puts a process under the quota.
    pub fn limit(&self, process: u32) -> Result<()> {
        fs::write(self.0.join("cgroup.procs"), process.to_string())
            .context("NOT MEASURED: the process can't be put under a CPU quota")
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Fails while a process of the group has not ended. An empty group has no effect.
        let _ = fs::remove_dir(&self.0);
    }
}
