//! The server's processes, as the operating system sees them.

use std::thread;
use std::time::Duration;
use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, Signal, System};

/// The interval between checks of a process that is about to change.
const PAUSE: Duration = Duration::from_millis(1);

/// Whether a process runs. A process that has ended, but was not waited for yet, does not run.
pub(crate) fn runs(process: Pid) -> bool {
    !matches!(
        status(process),
        None | Some(ProcessStatus::Zombie | ProcessStatus::Dead)
    )
}

/// Kills a process and its children, and returns when they have ended. None of them sees another one die.
pub(crate) fn kill_with_children(parent: Pid) {
    let mut system = System::new();
    refresh(&mut system, ProcessesToUpdate::Some(&[parent]));
    if let Some(process) = system.process(parent) {
        process.kill_with(Signal::Stop);
    }
    // Once stopped, the parent starts no more children.
    while runs(parent) && status(parent) != Some(ProcessStatus::Stop) {
        thread::sleep(PAUSE);
    }
    refresh(&mut system, ProcessesToUpdate::All);
    let family: Vec<_> = system
        .processes()
        .values()
        .filter(|process| process.pid() == parent || process.parent() == Some(parent))
        .collect();
    for process in &family {
        process.kill();
    }
    for process in family {
        while runs(process.pid()) {
            thread::sleep(PAUSE);
        }
    }
}

fn status(process: Pid) -> Option<ProcessStatus> {
    let mut system = System::new();
    refresh(&mut system, ProcessesToUpdate::Some(&[process]));
    system.process(process).map(sysinfo::Process::status)
}

fn refresh(system: &mut System, which: ProcessesToUpdate<'_>) {
    let kind = ProcessRefreshKind::nothing().without_tasks();
    system.refresh_processes_specifics(which, true, kind);
}
