// SPDX-License-Identifier: GPL-2.0-only
//! What host and guest say to each other.
//!
//! The host puts one [`Job`] as JSON into the initramfs at [`JOB_PATH`]. The guest answers with
//! [`Message`]s, one JSON object a line, over the virtio serial port named [`PORT_NAME`], where
//! kernel messages cannot get between. A run that ended well is `hello`, any number of `phase`,
//! `begin`, `progress` and `plug`, one `result`, `done`, and then the machine is off. One that
//! failed in a way that the guest could still tell has an `error` instead of the `result`.
//! Everything else (no `done`, a kernel message of alarm on the console, silence past the time
//! limit) is for the host to notice.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
pub use wideleaf_bench::mapping::Advice;
pub use wideleaf_bench::options::{ExecOptions, Stride};
pub use wideleaf_bench::report::ExecReport;
pub use wideleaf_bench::sparse::{Access, SparseReport};

/// Both sides come from one build; the number catches a stale initramfs. Raised with every
/// change that an older reader would misread.
pub const VERSION: u32 = 3;

/// Name of the virtio serial port for the answers.
pub const PORT_NAME: &str = "wideleaf.answers";

/// Where the job lies in the initramfs.
pub const JOB_PATH: &str = "/job.json";

/// Caller's id in the coverage record of the exec benchmark's mapping.
pub const COVERAGE_TEXT: u64 = 1;

/// What a guest is booted for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Seconds after which the guest gives the task up, says where it hung and powers off. The
    /// host should wait a little longer before it ends the machine itself.
    pub time_limit_s: u32,
    /// The disk to mount, if the task needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// How scarce memory is.
    #[serde(default)]
    pub memory: MemoryPressure,
    /// Name of the job.
    pub name: String,
    /// What to do, as the job's guest side reads it.
    pub task: Value,
}

/// How scarce memory is while the task runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPressure {
    /// memory.max of the task's cgroup in bytes; `None`: it has none of its own.
    pub limit: Option<u64>,
    /// Bytes that are free above the high watermarks when the task begins; the rest is taken.
    pub free: Option<u64>,
    /// Whether that is single pages, so that no folio of several can be had.
    #[serde(default)]
    pub fragmented: bool,
}

impl Job {
    /// A job without a disk.
    #[must_use]
    pub fn new(name: &str, task: Value, time_limit_s: u32) -> Self {
        Self {
            version: VERSION,
            time_limit_s,
            disk: None,
            memory: MemoryPressure::default(),
            name: name.into(),
            task,
        }
    }
}

/// A disk and where its file system goes. Runs of one image must not differ by what an earlier one
/// wrote: it is mounted read-only, or QEMU throws away what is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Name of the block device, without `/dev/`.
    #[serde(default = "default_device")]
    pub device: String,
    /// File system type as mount(2) takes it: `xfs`, `ext4`, `erofs`.
    pub filesystem: String,
    /// Mount options as mount(2) takes them, such as `norecovery`.
    #[serde(default)]
    pub options: String,
    /// Where to mount it; made if it is not there.
    #[serde(default = "default_mount_point")]
    pub mount_point: String,
    /// Readahead window in KiB; `None` leaves the driver's own (virtio's comes out as 8192).
    #[serde(default)]
    pub read_ahead_kb: Option<u32>,
    /// Whether it is mounted for writing.
    #[serde(default)]
    pub writable: bool,
}

fn default_device() -> String {
    "vda".into()
}

fn default_mount_point() -> String {
    "/mnt".into()
}

impl Disk {
    /// `/dev/vda` with this file system on `/mnt`, and a readahead window in KiB.
    #[must_use]
    pub fn new(filesystem: &str, read_ahead_kb: Option<u32>) -> Self {
        Self {
            device: default_device(),
            filesystem: filesystem.into(),
            options: String::new(),
            mount_point: default_mount_point(),
            read_ahead_kb,
            writable: false,
        }
    }
}

/// The work itself. Running a program from the disk will become one more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Task {
    /// The exec benchmark. Its file path is the one in the guest, below the mount point.
    Exec(ExecOptions),
    /// The exec benchmark, on one file after the other.
    ExecSizes {
        /// One for each file.
        runs: Vec<ExecOptions>,
    },
    /// Executes parts of a stub file.
    Sparse(SparseOptions),
    /// Collects what the kernel's built-in KUnit suites found at boot. Wants CONFIG_KUNIT,
    /// CONFIG_KUNIT_DEBUGFS and CONFIG_DEBUG_FS.
    Kunit,
    /// Runs the base's own tools/testing/selftests/mm, which lie on the disk.
    MmSelftests(SelftestOptions),
    /// Only boots and answers.
    Boot,
    /// Maps, protects, moves, shares and unmaps memory in many ways.
    Maintenance,
    /// Makes and breaks contiguous groups of page-table entries in every way.
    Contpte {
        /// A folder of the disk that files can be written in.
        folder: PathBuf,
    },
    /// Processes write to shared mappings of files of their own.
    SharedWrites(SharedWritesOptions),
    /// Runs programs from the disk.
    Programs {
        /// The folder that they see as `/`.
        root: String,
        /// One after the other, each from an empty page cache.
        programs: Vec<Program>,
    },
    /// Loads programs and libraries again and again, and collects where they came to lie.
    Entropy {
        /// The folder that they see as `/`.
        root: String,
        /// How often each is loaded.
        loads: u32,
        /// What is loaded.
        cases: Vec<EntropyCase>,
    },
    /// Many processes use the same text in every way at once; a kernel that shows a wrong page,
    /// complains or lets a task hang has failed.
    Storm(StormOptions),
    /// Looks at the kernel's linear map and changes nothing.
    LinearMap,
    /// Many processes have permissions of the linear map changed, others read through it.
    LinearStorm(LinearStormOptions),
    /// Others that read or change the tables of the linear map meet those changes.
    LinearOthers(LinearOthersOptions),
    /// Work that the kernel does through its linear map, before and after permissions change.
    LinearWork(LinearWorkOptions),
    /// Goes wrong on purpose, so that the lab can be seen to notice.
    SelftestFault {
        /// How.
        fault: Fault,
    },
}

/// What contiguous groups went through. What mapped each of them after each step is in coverage
/// records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContpteReport {
    /// Bytes of a group.
    pub group: u64,
    /// Groups of each memory.
    pub groups: u64,
    /// Kinds of memory, in order.
    pub memories: Vec<ContpteMemory>,
}

/// A kind of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContpteMemory {
    /// `anon`, `private-file`, `shared-file`.
    pub name: String,
    /// What was done, in order.
    pub steps: Vec<String>,
    /// Number of the first group's record after the first step; the next group's is one more.
    pub first_id: u64,
    /// From a group's record after a step to its record after the next.
    pub ids_per_step: u64,
}

/// Where files are mapped shared, and how much of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedWritesOptions {
    /// A folder of the disk that files can be written in.
    pub folder: PathBuf,
    /// Bytes of a mapping, a multiple of 2M.
    pub size: u64,
}

/// What writes through shared mappings cost, and what was seen of them. Whatever must hold did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedWritesReport {
    /// Ways to map and write, in order.
    pub cases: Vec<SharedCase>,
    /// Pages called dirty when one in every other folio was written to.
    pub dirty: u64,
    /// Pages that one write mapped where a userfaultfd watched.
    pub watched_entries: u64,
}

/// A way to map and write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedCase {
    /// Also its phase's: `disk.large`.
    pub name: String,
    /// Number of its coverage record, which shows a mapping all of which was written to.
    pub id: u64,
    /// Pages written to, each time it was mapped.
    pub pages: u64,
    /// Faults of the processes while they worked.
    pub faults: u64,
}

/// Parts of a stub file to execute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseOptions {
    /// The stub file in the guest.
    pub file: PathBuf,
    /// Which parts, one run each, as [`crate::sparse::pattern`] reads them.
    pub patterns: Vec<String>,
    /// Seed of the patterns and of the random calls.
    pub seed: u64,
    /// How the file is mapped and touched.
    pub access: Access,
    /// What is written to `fault_around_bytes` before; `None`: nothing is.
    pub fault_around: Option<u64>,
}

/// A program's work: commands that run one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// By which its figures go.
    pub name: String,
    /// All of the environment.
    pub env: BTreeMap<String, String>,
    /// Program and arguments, without blanks in them.
    pub commands: Vec<String>,
}

/// What a [`Program`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramReport {
    /// Its name.
    pub name: String,
    /// From an empty page cache.
    pub cold: ProgramRun,
    /// Again, with all that the first run left there.
    pub warm: ProgramRun,
    /// What its last command wrote to standard error, if it failed.
    pub complaint: String,
    /// The executable mappings that a third run of its last command had when it ended.
    pub text: Vec<Mapped>,
}

/// One run of all of a program's commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRun {
    /// Of its processes, from fork to exit, without reading from the disk.
    pub minor_faults: u64,
    /// The same, with reading.
    pub major_faults: u64,
    /// Read from the disk by the whole guest meanwhile.
    pub read_bytes: u64,
    /// As wait(2) tells, by command; 0 is success.
    pub status: Vec<i32>,
    /// Standard output of all commands.
    pub output: String,
}

/// An executable mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// Number of its coverage record.
    pub id: u64,
    /// The file's path as the program sees it.
    pub file: String,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
}

/// What is loaded again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntropyCase {
    /// By which its figures go.
    pub name: String,
    /// Program and arguments, without blanks in them. Writes addresses as native 64-bit words.
    pub command: String,
    /// All of the environment.
    pub env: BTreeMap<String, String>,
    /// Which of the words it is about.
    pub word: usize,
    /// Persona flags of personality(2) that it gets.
    pub persona: u32,
}

/// Where a case's loads came to lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The case's name.
    pub name: String,
    /// Number of loads.
    pub loads: u32,
    /// Bits in which any two addresses differ.
    pub varying: u64,
    /// The lowest address.
    pub min: u64,
    /// The highest.
    pub max: u64,
    /// Number of different addresses.
    pub distinct: u64,
}

/// Which of the selftests to run, and where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelftestOptions {
    /// Folder with the runner, static `bash` and `busybox` for it, and the tests, which run in it
    /// and write to it.
    pub tests: PathBuf,
    /// A folder on XFS that tests may write to.
    pub xfs: PathBuf,
    /// The runner's categories, separated by blanks; empty for all.
    pub categories: String,
    /// Programs that are not run, and not told of.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Seconds of the guest's clock after which a test is killed.
    pub test_limit_s: u32,
}

/// What the storm job's processes do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormOptions {
    /// Who meets whom.
    pub scenario: Scenario,
    /// A folder that files can be written in.
    pub folder: PathBuf,
    /// Seconds of the guest's clock.
    pub seconds: u32,
    /// Seed of what each process does.
    pub seed: u64,
    /// Seconds of the guest's clock that a task may sleep uninterruptibly, and within which
    /// SIGKILL must end it.
    pub hung_s: u32,
    /// Whether allocations of wide folios are made to fail, which takes a kernel that can.
    pub fail_allocations: bool,
}

/// What the processes of the job linear-storm do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearStormOptions {
    /// How often each process that changes permissions makes or drops something.
    pub rounds: u64,
    /// Seed of what each process does.
    pub seed: u64,
    /// Seconds of the guest's clock that the map may take to become wide again.
    pub settle_s: u32,
    /// Whether allocations for the changes are made to fail, which takes a kernel that can.
    pub fail_allocations: bool,
}

/// What the job linear-others does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearOthersOptions {
    /// Seconds of the guest's clock that each meeting lasts.
    pub seconds: u32,
    /// Seed of what each process does.
    pub seed: u64,
    /// Seconds of the guest's clock that the map may take to become wide again.
    pub settle_s: u32,
    /// Bytes of memory that can be plugged.
    pub plug: u64,
}

/// What the job linear-work does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearWorkOptions {
    /// Bytes of the file that is read from the page cache.
    pub size: u64,
    /// Bytes of the encrypted disk, a multiple of 1M.
    pub disk: u64,
    /// How many reads, requests, and writes to that disk.
    pub calls: u64,
    /// Seed of where is read.
    pub seed: u64,
    /// How many places of the map are changed, 2M apart, and back.
    pub changes: u64,
    /// Where the user land is that has fio.
    pub root: String,
}

/// What a job on the linear map found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearReport {
    /// The map at one time after the other. The plugin's coverage record of the first has the
    /// id 1, and so on.
    pub moments: Vec<LinearMoment>,
    /// What was done how often, by name.
    pub counts: BTreeMap<String, u64>,
}

/// The linear map as the kernel itself tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearMoment {
    /// `boot`, `storm`, `settled`.
    pub name: String,
    /// Bytes by leaf: the lines `DirectMap*` of /proc/meminfo. Empty where there are none.
    pub leaves: BTreeMap<String, u64>,
    /// Bytes of its page tables: the line `DirectMapTable`, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_bytes: Option<u64>,
    /// The lines `direct_map_*` of /proc/vmstat, by what follows.
    pub events: BTreeMap<String, u64>,
}

/// What is played in the storm job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// Everything at once, at random.
    #[default]
    All,
    /// One drops a page of a block and asks for its collapse, another truncates into the block.
    CollapseTruncate,
    /// One pins a page of a block and makes another come and go; a bystander's locked pages must
    /// stay mapped.
    Pinned,
    /// Pages are executed while their owner writes new ones with O_DIRECT.
    DirectWrite,
    /// The disk hardly answers; SIGKILL must end who waits for it.
    SlowRead,
    /// A realtime task keeps one CPU; nobody may wait for that.
    BusyCpu,
    /// Text moves from one memory cgroup to another; their statistics must follow.
    Charged,
}

impl Scenario {
    /// All of them, the default first.
    pub const ALL: [Scenario; 7] = [
        Scenario::All,
        Scenario::CollapseTruncate,
        Scenario::Pinned,
        Scenario::DirectWrite,
        Scenario::SlowRead,
        Scenario::BusyCpu,
        Scenario::Charged,
    ];

    /// As the command line and JSON name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::CollapseTruncate => "collapse-truncate",
            Self::Pinned => "pinned",
            Self::DirectWrite => "direct-write",
            Self::SlowRead => "slow-read",
            Self::BusyCpu => "busy-cpu",
            Self::Charged => "charged",
        }
    }
}

impl std::str::FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|known| known.name() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::name).join(", ");
                format!("unknown scenario '{text}': known are {known}")
            })
    }
}

/// What a storm's processes did and saw, none of it wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormReport {
    /// How often, by name: `executed`, `checked`, `holes`, `collapses`, ...
    pub counts: BTreeMap<String, u64>,
}

/// Ways to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Kernel panic through sysrq, or by leaving PID 1 where there is no sysrq.
    Panic,
    /// Kernel panic because PID 1 exits.
    InitExit,
    /// Kernel WARN, through lkdtm (CONFIG_LKDTM).
    Warn,
    /// Kernel oops (a BUG), through lkdtm (CONFIG_LKDTM).
    Oops,
    /// The task never ends; the guest's own time limit catches it.
    Hang,
    /// The whole guest sits still; only the host can notice.
    Freeze,
    /// Power-off before the result.
    EarlyPowerOff,
    /// The task's process dies of SIGSEGV.
    JobCrash,
    /// The task panics (Rust's panic).
    JobPanic,
    /// Garbage on the console, some of it looking like an answer, and a good result after it.
    ConsoleGarbage,
}

impl Fault {
    /// All of them, for tests that go through the list.
    pub const ALL: [Fault; 10] = [
        Fault::Panic,
        Fault::InitExit,
        Fault::Warn,
        Fault::Oops,
        Fault::Hang,
        Fault::Freeze,
        Fault::EarlyPowerOff,
        Fault::JobCrash,
        Fault::JobPanic,
        Fault::ConsoleGarbage,
    ];
}

/// One line from the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Message {
    /// The first line: which kernel this is.
    Hello(Hello),
    /// What is being done, for a human.
    Progress {
        /// Without a full stop.
        text: String,
    },
    /// Names a phase that the plugin will know by number. Sent before the phase begins, so that
    /// nothing but the work happens in it.
    Phase {
        /// 1 to 127.
        id: u8,
        /// `cold`, `random`.
        name: String,
    },
    /// The next thing done is the work of this phase, until the next message.
    Begin {
        /// As [`Message::Phase`] announced it.
        phase: u8,
        /// What is done, for a human.
        text: String,
    },
    /// Asks the host to plug so much memory into the guest, or to take away what is more than that.
    /// The guest sees it come and go; there is no answer.
    Plug {
        /// Bytes, 0 for none; at most what the guest was promised.
        bytes: u64,
    },
    /// What the task found.
    Result {
        /// As the job's host side reads it.
        outcome: Value,
    },
    /// The task or its preparation failed. No result follows.
    Error(Failure),
    /// The last line; power-off follows.
    Done(Farewell),
}

/// Facts of the running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`] of the guest.
    pub version: u32,
    /// As uname(2) says: `6.12.117`.
    pub release: String,
    /// As uname(2) says: number and date of the build.
    pub build: String,
    /// As uname(2) says: `aarch64`, `x86_64`.
    pub machine: String,
    /// Base page size in bytes.
    pub page_size: u64,
    /// The kernel's command line.
    pub cmdline: String,
    /// `MemTotal` in bytes.
    pub memory: u64,
    /// Files of /sys/kernel/mm/transparent_hugepage, with the paths of those in its
    /// `hugepages-*` folders relative to it. Empty on a kernel without THP.
    #[serde(default)]
    pub thp: BTreeMap<String, String>,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What was being done and what failed, outermost first, in one line.
    pub what: String,
    /// More that may help: the hanging task's kernel stack, a panic's place.
    #[serde(default)]
    pub details: Vec<String>,
}

/// What a task found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one per boot, and Message boxes it"
)]
pub enum Outcome {
    /// Of [`Task::Exec`].
    Exec {
        /// The figures.
        report: ExecReport,
        /// Readahead window of the disk in KiB as the run saw it, read back from sysfs.
        read_ahead_kb: Option<u32>,
    },
    /// Of [`Task::ExecSizes`].
    ExecSizes {
        /// The figures, in the order of the request.
        reports: Vec<ExecReport>,
        /// The disk's readahead window in KiB as the kernel has it.
        read_ahead_kb: Option<u32>,
    },
    /// Of [`Task::Sparse`].
    Sparse {
        /// The figures, in the order of the request.
        reports: Vec<SparseReport>,
        /// The disk's readahead window in KiB as the kernel has it.
        read_ahead_kb: Option<u32>,
    },
    /// Of [`Task::Kunit`].
    Kunit(KunitReport),
    /// Of [`Task::Programs`], in their order.
    Programs {
        /// One for each program.
        programs: Vec<ProgramReport>,
    },
    /// Of [`Task::Entropy`], in the order of the cases.
    Entropy {
        /// One for each case.
        spreads: Vec<Spread>,
    },
    /// Of [`Task::MmSelftests`].
    MmSelftests(SelftestReport),
    /// Of [`Task::Storm`].
    Storm(StormReport),
    /// Of [`Task::Maintenance`].
    Maintenance {
        /// How many steps went as they should: all.
        steps: u32,
    },
    /// Of [`Task::LinearMap`], [`Task::LinearStorm`] and [`Task::LinearWork`].
    Linear(LinearReport),
    /// Of [`Task::Contpte`].
    Contpte(ContpteReport),
    /// Of [`Task::SharedWrites`].
    SharedWrites(SharedWritesReport),
    /// Of [`Task::Boot`] and of faults that leave the guest well.
    Boot,
}

/// State at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Farewell {
    /// /proc/sys/kernel/tainted, a bit mask (Documentation/admin-guide/tainted-kernels.rst):
    /// bit 7, the kernel died once; bit 9, there was a WARN; bit 18, KUnit ran, which is no
    /// complaint. `None`: no such file.
    pub tainted: Option<u64>,
    /// Hundredths of a second since boot.
    pub uptime_cs: u64,
}

/// All KUnit suites of a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KunitReport {
    /// In order of name.
    pub suites: Vec<KunitSuite>,
}

impl KunitReport {
    /// Number of tests with this status over all suites.
    #[must_use]
    pub fn count(&self, status: KunitStatus) -> usize {
        self.suites
            .iter()
            .flat_map(|s| &s.tests)
            .filter(|t| t.status == status)
            .count()
    }

    /// Whether there was something to run and nothing failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.suites.is_empty()
            && self.suites.iter().all(|s| s.status != KunitStatus::Fail)
            && self.count(KunitStatus::Fail) == 0
    }
}

/// One KUnit suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KunitSuite {
    /// As the kernel names it.
    pub name: String,
    /// The suite's own line.
    pub status: KunitStatus,
    /// In order of execution; parameters of a parameterised test come before it, as
    /// `test/parameter`.
    pub tests: Vec<KunitTest>,
    /// The whole KTAP text if anything failed, else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
}

/// One test of KUnit, or of a selftest's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KunitTest {
    /// As the kernel names it.
    pub name: String,
    /// How it ended.
    pub status: KunitStatus,
    /// The reason of a skip or, where it is told, of a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What the runner of selftests/mm said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelftestReport {
    /// In order of execution.
    pub programs: Vec<SelftestProgram>,
}

/// One program with its arguments: what the runner counts as a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelftestProgram {
    /// The command line: `khugepaged -s 2`.
    pub name: String,
    /// How it ended.
    pub status: KunitStatus,
    /// Its exit status if it failed, or that it was killed at its limit; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The tests in it, if it tells of them.
    pub tests: Vec<KunitTest>,
    /// The end of its output if it did not pass, else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KunitStatus {
    /// `ok`
    Pass,
    /// `not ok`
    Fail,
    /// `ok … # SKIP`
    Skip,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_the_way() {
        let task = serde_json::json!({ "file": "/mnt/stubs" });
        let mut job = Job::new("exec", task, 60);
        job.disk = Some(Disk::new("xfs", Some(128)));
        let text = serde_json::to_string(&job).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
    }

    #[test]
    fn a_job_may_leave_defaults_out() {
        let job: Job = serde_json::from_str(
            r#"{"version":1,"time_limit_s":60,"disk":{"filesystem":"ext4"},
                "name":"exec","task":{}}"#,
        )
        .unwrap();
        assert_eq!(job.disk, Some(Disk::new("ext4", None)));
    }

    #[test]
    fn every_fault_survives_the_way() {
        for fault in Fault::ALL {
            let text = serde_json::to_string(&Task::SelftestFault { fault }).unwrap();
            assert_eq!(
                serde_json::from_str::<Task>(&text).unwrap(),
                Task::SelftestFault { fault }
            );
        }
    }

    #[test]
    fn messages_are_one_line_each() {
        let message = Message::Error(Failure {
            what: "mount /dev/vda\non /mnt".into(),
            details: vec!["a\nb".into()],
        });
        let text = serde_json::to_string(&message).unwrap();
        assert!(!text.contains('\n'));
        assert!(text.starts_with(r#"{"message":"error""#), "{text}");
        assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
    }

    #[test]
    fn kunit_without_suites_has_not_passed() {
        assert!(!KunitReport::default().passed());
    }
}
