//! Figures about threads and processes. Only Linux has them: on other systems everything builds, but the benchmark
//! refuses to start.

use std::time::Duration;

/// Whether the benchmark runs on this system.
pub const IS_SUPPORTED: bool = cfg!(target_os = "linux");

/// Makes this thread's sleeps exact: by default Linux adds up to 50 µs.
pub fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    {
        // If this fails, sleeps are slightly longer, which the benchmark reports.
        let _ = nix::sys::prctl::set_timerslack(1);
    }
}

/// The CPU time of this thread so far.
pub fn thread_cpu() -> Duration {
    #[cfg(target_os = "linux")]
    if let Ok(time) = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID) {
        return time.into();
    }
    Duration::ZERO
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

/// The average number of processes that wanted a CPU over the last minute.
pub fn load() -> Option<f64> {
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
