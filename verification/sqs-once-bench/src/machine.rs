//! What the machine says of threads and processes. It is Linux that says it: elsewhere everything
//! builds, and the benchmark refuses to start.

use std::time::Duration;

/// Whether the benchmark runs here.
pub const IS_SUPPORTED: bool = cfg!(target_os = "linux");

/// Lets this thread's sleeps end when they should: Linux otherwise adds up to 50 µs.
pub fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    {
        // Without it sleeps are a little longer, which the benchmark reports.
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

/// The CPU time of a process so far, all its threads together, those that have ended included.
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

/// The most memory that a process has had so far, in bytes (`VmHWM`).
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
    #[cfg(target_os = "linux")]
    if let Ok(process) = process.try_into() {
        let process = nix::unistd::Pid::from_raw(process);
        // It may have ended by itself.
        let _ = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = process;
}

/// How many processes wanted a CPU over the last minute, on average.
pub fn load() -> Option<f64> {
    let averages = std::fs::read_to_string("/proc/loadavg").ok()?;
    averages.split_whitespace().next()?.parse().ok()
}

/// How many processors there are.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processor's name and how many of them there are.
pub fn processors() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, name)| name.trim());
    format!("{} × {name}", cores())
}
