// SPDX-License-Identifier: GPL-2.0-only
//! The QEMU command line of a guest.

use super::{clock, monitor};
use crate::common::CpuModel;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use wideleaf_kbuild::Arch;

/// The virtio-serial port on which the guest answers.
pub const ANSWERS_PORT: &str = "wideleaf.answers";

/// MIDR_EL1 of AmpereOne, revision 0. Kernels know by it that the CPU may change the size of a
/// leaf live without a TLB conflict abort; ID registers do not tell that, and QEMU has none.
const BBM_MIDR: u64 = 0xc00f_ac30;

/// A make for which kernels set X86_FEATURE_ZEN (`init_amd_zen_common()` in
/// arch/x86/kernel/cpu/amd.c), here the first models of Zen 4; it follows `max`.
const ZEN: &str = ",vendor=AuthenticAMD,family=25,model=17,stepping=1";

/// Requests that a slow disk answers at once: enough to mount it and begin.
const DISK_BURST: u32 = 1000;

/// A guest as QEMU shall start it.
#[derive(Debug)]
pub struct Guest<'a> {
    /// The architecture.
    pub arch: Arch,
    /// `Image` or `bzImage`.
    pub kernel: &'a Path,
    /// The initramfs.
    pub initramfs: &'a Path,
    /// The disk, if the job needs one.
    pub disk: Option<&'a Path>,
    /// Whether the guest may write to the disk; what it wrote is thrown away.
    pub writable: bool,
    /// Requests a second that the disk answers once a burst is used up; `None`: as many as it can.
    pub disk_rate: Option<u32>,
    /// CPUs; more than one run at the same time, with the plugin in turn.
    pub cpus: u32,
    /// What its CPUs say that they are.
    pub cpu_model: CpuModel,
    /// Guest memory in bytes.
    pub memory: u64,
    /// Bytes of memory that can be plugged into it while it runs, a multiple of 2M.
    pub pluggable: Option<u64>,
    /// The file that becomes guest memory; QEMU creates it.
    pub ram: &'a Path,
    /// The file that receives the guest's answers.
    pub answers: &'a Path,
    /// The file that receives the kernel's console.
    pub console: &'a Path,
    /// Whether an x86-64 machine tells of its devices by ACPI, for kernels that read nothing else.
    pub acpi: bool,
    /// Whether such a machine has a PCI bus.
    pub pcie: bool,
    /// More kernel parameters.
    pub parameters: &'a str,
    /// The TLB plugin, if the job counts.
    pub plugin: Option<Plugin<'a>>,
}

/// The TLB plugin and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Plugin<'a> {
    /// `libwideleaf_plugin.so`.
    pub file: &'a Path,
    /// The CPU profile's name.
    pub profile: &'a str,
    /// The file that receives the counts.
    pub out: &'a Path,
    /// Whether the referee looks on.
    pub referee: bool,
    /// Variants of the profile that count too, by name.
    pub sweep: &'a [String],
}

/// The physical address at which guest memory begins (QEMU's `hw/arm/virt.c`,
/// `VIRT_MEM`; a PC's starts at 0).
pub const fn ram_base(arch: Arch) -> u64 {
    match arch {
        Arch::Arm64 => 0x4000_0000,
        Arch::X86_64 => 0,
    }
}

/// The command that runs `guest` in the QEMU at `program`.
pub fn command(program: &Path, guest: &Guest<'_>) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments(guest))
        .stdin(Stdio::null())
        .env_remove("DISPLAY");
    command
}

fn arguments(guest: &Guest<'_>) -> Vec<OsString> {
    let mut args = Arguments::default();
    args.plain("-nodefaults -no-user-config -display none -monitor none -no-reboot");
    // What the plugin is told of must have one order, and the same in every run. Whoever waits for
    // another CPU gives its turn away (YIELD, WFE, PAUSE); turns else end by virtual time.
    let at_once = guest.cpus > 1 && guest.plugin.is_none();
    let threads = if at_once { "multi" } else { "single" };
    args.plain(&format!("-accel tcg,thread={threads} -smp {}", guest.cpus));
    args.plain(match guest.arch {
        // A random seed in the device tree would make every run differ.
        Arch::Arm64 if guest.cpu_model == CpuModel::BbmMte => {
            "-machine virt,gic-version=3,dtb-randomness=off,mte=on,memory-backend=ram"
        }
        Arch::Arm64 => "-machine virt,gic-version=3,dtb-randomness=off,memory-backend=ram",
        // By ACPI the kernel finds no PIC, and leaves it unmasked: the PIT's first interrupt may
        // come as soon as it allows any, by vector 0, and is a divide error. It is told the clock.
        Arch::X86_64 if guest.pcie => {
            "-machine microvm,acpi=on,pcie=on,pic=off,pit=off,rtc=on,memory-backend=ram"
        }
        Arch::X86_64 if guest.acpi => {
            "-machine microvm,acpi=on,pic=off,pit=off,rtc=on,memory-backend=ram"
        }
        // Without ACPI, QEMU tells where the devices are on the command line.
        Arch::X86_64 => "-machine microvm,acpi=off,rtc=on,memory-backend=ram",
    });
    match guest.arch {
        Arch::Arm64 => {
            args.plain("-cpu").push(match guest.cpu_model {
                CpuModel::Max | CpuModel::NoEts2 | CpuModel::Zen => "max".into(),
                CpuModel::Bbm | CpuModel::BbmMte => format!("max,midr={BBM_MIDR:#x}"),
                CpuModel::BbmNoLpa2 => format!("max,midr={BBM_MIDR:#x},lpa2=off"),
            });
        }
        Arch::X86_64 => {
            let make = match guest.cpu_model {
                CpuModel::Zen => ZEN,
                _ => "",
            };
            // QEMU runs a `rep` instruction byte by byte; where nothing is counted, the kernel may
            // as well copy by words.
            let words = if at_once { ",-erms,-fsrm" } else { "" };
            args.plain(&format!("-cpu max{make}{words}"));
        }
    }
    args.plain("-global virtio-mmio.force-legacy=false");
    // Virtual time runs with the instructions, one nanosecond each: otherwise
    // a slow host means more timer interrupts, hence other counts. With the
    // plugin the disk takes none of it. Without, and while the guest sleeps,
    // time is the host's; if it jumped to the next timer (sleep=off) instead,
    // every wait would take until the next timeout. Where nothing is
    // counted, it would only make all that goes by time take longer.
    if guest.plugin.is_some() {
        args.plain("-icount shift=0,sleep=on");
    }
    args.plain("-m").push(match guest.pluggable {
        None => format!("{}", guest.memory >> 20),
        Some(more) => format!(
            "{0}M,maxmem={1}M",
            guest.memory >> 20,
            (guest.memory + more) >> 20
        ),
    });
    let size = guest.memory;
    args.option(
        "-object",
        &format!("memory-backend-file,id=ram,size={size},share=on,mem-path="),
        guest.ram,
    );
    args.path("-kernel", guest.kernel);
    args.path("-initrd", guest.initramfs);
    args.plain("-append").push(parameters(guest));
    args.option("-chardev", "file,id=console,path=", guest.console);
    args.plain("-serial chardev:console");
    args.option("-chardev", "file,id=answers,path=", guest.answers);
    args.plain("-device virtio-serial-device");
    args.plain("-device").push(format!(
        "virtserialport,chardev=answers,name={ANSWERS_PORT}"
    ));
    if let Some(disk) = guest.disk {
        let mut kind = match guest.writable {
            true => "snapshot=on",
            false => "readonly=on",
        }
        .to_string();
        if let Some(rate) = guest.disk_rate {
            kind +=
                &format!(",throttling.iops-total={rate},throttling.iops-total-max={DISK_BURST}");
        }
        args.option(
            "-drive",
            &format!("id=disk,if=none,format=raw,{kind},file.locking=off,file="),
            disk,
        );
        args.plain("-device virtio-blk-device,drive=disk,serial=wideleaf");
    }
    if let Some(bytes) = guest.pluggable {
        pluggable(&mut args, bytes);
    }
    if let Some(plugin) = &guest.plugin {
        let sweep = match plugin.sweep {
            [] => String::new(),
            names => format!(",sweep={}", names.join("+")),
        };
        // `file` has to come first: QEMU takes what follows as its arguments.
        let value = format!(
            "file={},profile={},ram_base={:#x},ram={},out={},referee={}",
            escape(plugin.file),
            plugin.profile,
            ram_base(guest.arch),
            escape(guest.ram),
            escape(plugin.out),
            if plugin.referee { "on" } else { "off" }
        ) + promises(guest.arch, guest.cpu_model)
            + if guest.cpus > 1 { ",turns=on" } else { "" }
            + &sweep;
        args.plain("-plugin").push(value);
    }
    args.list
}

/// A device with nothing plugged into it, and who is told of changes on standard input.
fn pluggable(args: &mut Arguments, bytes: u64) {
    let device = monitor::DEVICE;
    args.plain(&format!(
        "-object memory-backend-ram,id=pluggable,size={bytes}"
    ));
    args.plain("-device").push(format!(
        "virtio-mem-pci,id={device},memdev=pluggable,requested-size=0"
    ));
    args.plain("-chardev socket,id=monitor,fd=0 -mon chardev=monitor,mode=control");
}

/// What the CPUs promise, for the referee. QEMU's `max` says FEAT_ETS2 in ID_AA64MMFR1_EL1 (since
/// 9.1, 74360f3544be). That it also says FEAT_BBM kernels do not take from there, but from a list
/// of makes.
fn promises(arch: Arch, cpu_model: CpuModel) -> &'static str {
    match (arch, cpu_model) {
        (Arch::X86_64, _) | (_, CpuModel::NoEts2) => "",
        (Arch::Arm64, CpuModel::Max | CpuModel::Zen) => ",ets2=on",
        (Arch::Arm64, CpuModel::Bbm | CpuModel::BbmNoLpa2 | CpuModel::BbmMte) => ",ets2=on,bbm=2",
    }
}

/// Kernel parameters. A fault ends the run at once: whatever a kernel counts
/// after it complained is not a result. Proactive compaction is off, as it
/// goes by time: it made 6.12 execute 8 million instructions in one cold sweep
/// and 48 million in the next.
fn parameters(guest: &Guest<'_>) -> String {
    let machine = match guest.arch {
        Arch::Arm64 => "console=ttyAMA0 earlycon".to_string(),
        Arch::X86_64 => "console=ttyS0 earlyprintk=ttyS0 reboot=t".to_string() + clock_of(guest),
    };
    format!(
        "{machine} panic=-1 oops=panic panic_on_warn=1 sysctl.vm.compaction_proactiveness=0 {}",
        guest.parameters
    )
    .trim_end()
    .to_string()
}

/// What an x86 kernel is told of its clock. With the plugin, RDTSC goes by virtual time, and the
/// kernel finds out how fast that is, by the PIT where it has one.
fn clock_of(guest: &Guest<'_>) -> &'static str {
    match guest.plugin {
        None => clock::parameters(),
        Some(_) if guest.acpi => clock::VIRTUAL,
        Some(_) => "",
    }
}

#[derive(Default)]
struct Arguments {
    list: Vec<OsString>,
}

impl Arguments {
    /// Adds words without blanks in them.
    fn plain(&mut self, words: &str) -> &mut Self {
        self.list.extend(words.split(' ').map(OsString::from));
        self
    }

    /// Adds one word.
    fn push(&mut self, word: String) {
        self.list.push(word.into());
    }

    /// Adds an option whose value is a path by itself.
    fn path(&mut self, option: &str, path: &Path) {
        self.list.extend([option.into(), path.into()]);
    }

    /// Adds an option whose value ends in a path.
    fn option(&mut self, option: &str, head: &str, path: &Path) {
        self.list
            .extend([option.into(), format!("{head}{}", escape(path)).into()]);
    }
}

/// QEMU separates suboptions by commas; a doubled one is a comma.
fn escape(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin() -> Plugin<'static> {
        Plugin {
            file: Path::new("/p/lib.so"),
            profile: "neoverse-v2",
            out: Path::new("/s/counts"),
            referee: true,
            sweep: &[],
        }
    }

    fn guest(arch: Arch) -> Guest<'static> {
        Guest {
            arch,
            kernel: Path::new("/k/Image"),
            initramfs: Path::new("/s/initramfs"),
            disk: None,
            writable: false,
            disk_rate: None,
            cpus: 1,
            cpu_model: CpuModel::Max,
            memory: 2 << 30,
            pluggable: None,
            acpi: false,
            pcie: false,
            ram: Path::new("/s/a,b/ram"),
            answers: Path::new("/s/answers"),
            console: Path::new("/s/console"),
            parameters: "quiet",
            plugin: None,
        }
    }

    fn joined(arch: Arch, disk: Option<&Path>, plugin: Option<Plugin<'_>>) -> String {
        line(&Guest {
            disk,
            plugin,
            ..guest(arch)
        })
    }

    fn line(guest: &Guest<'_>) -> String {
        let args = arguments(guest);
        let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
        args.join(" ")
    }

    #[test]
    fn guest_memory_is_a_shared_file_of_the_size_asked_for() {
        let args = joined(Arch::Arm64, None, None);
        assert!(args.contains("-m 2048 "), "{args}");
        assert!(
            args.contains(
                "memory-backend-file,id=ram,size=2147483648,share=on,mem-path=/s/a,,b/ram"
            ),
            "{args}"
        );
        assert!(args.contains("memory-backend=ram"), "{args}");
    }

    #[test]
    fn an_arm64_guest_may_be_of_a_make_that_changes_leaves_live() {
        let of = |arch, cpu_model| {
            line(&Guest {
                cpu_model,
                ..guest(arch)
            })
        };
        let args = of(Arch::Arm64, CpuModel::Bbm);
        assert!(args.contains("-cpu max,midr=0xc00fac30 "), "{args}");
        let args = of(Arch::Arm64, CpuModel::BbmNoLpa2);
        assert!(args.contains("midr=0xc00fac30,lpa2=off "), "{args}");
        let args = of(Arch::Arm64, CpuModel::BbmMte);
        assert!(
            args.contains(",mte=on,") && args.contains("midr="),
            "{args}"
        );
        for (arch, model) in [(Arch::Arm64, CpuModel::Max), (Arch::X86_64, CpuModel::Bbm)] {
            assert!(of(arch, model).contains("-cpu max "), "{arch} {model}");
        }
    }

    #[test]
    fn an_x86_guest_may_be_of_a_make_that_coalesces_pages() {
        let args = line(&Guest {
            cpu_model: CpuModel::Zen,
            ..guest(Arch::X86_64)
        });
        let zen = "-cpu max,vendor=AuthenticAMD,family=25,model=17,stepping=1 ";
        assert!(args.contains(zen), "{args}");
    }

    #[test]
    fn a_kernel_that_reads_acpi_has_a_machine_with_it() {
        let args = line(&Guest {
            acpi: true,
            ..guest(Arch::X86_64)
        });
        assert!(args.contains("microvm,acpi=on,pic=off,pit=off,"), "{args}");
        let with_pci = line(&Guest {
            acpi: true,
            pcie: true,
            ..guest(Arch::X86_64)
        });
        assert!(with_pci.contains("acpi=on,pcie=on,pic=off,pit=off,"));
        let counted = line(&Guest {
            acpi: true,
            plugin: Some(plugin()),
            ..guest(Arch::X86_64)
        });
        for part in ["acpi=on,pic=off,pit=off,", " tsc_early_khz=1000000 "] {
            assert!(counted.contains(part), "{counted}");
        }
        assert!(joined(Arch::X86_64, None, None).contains("acpi=off"));
    }

    #[test]
    fn memory_can_be_plugged_where_a_job_wants_it() {
        let args = line(&Guest {
            pluggable: Some(1 << 30),
            ..guest(Arch::Arm64)
        });
        assert!(args.contains("-m 2048M,maxmem=3072M "), "{args}");
        assert!(args.contains("memory-backend-ram,id=pluggable,size=1073741824 "));
        assert!(args.contains("virtio-mem-pci,id=plug,memdev=pluggable,requested-size=0 "));
        assert!(args.contains("socket,id=monitor,fd=0 "), "{args}");
        let args = joined(Arch::Arm64, None, None);
        assert!(
            !args.contains("virtio-mem") && !args.contains("fd=0"),
            "{args}"
        );
    }

    #[test]
    fn the_disk_cannot_be_written() {
        let args = joined(Arch::X86_64, Some(Path::new("/c/disk.img")), None);
        assert!(args.contains("readonly=on"), "{args}");
        assert!(args.contains("file=/c/disk.img"), "{args}");
    }

    #[test]
    fn what_a_guest_writes_is_thrown_away() {
        let disk = Guest {
            disk: Some(Path::new("/c/disk.img")),
            writable: true,
            ..guest(Arch::Arm64)
        };
        let args = line(&disk);
        assert!(
            args.contains("snapshot=on") && !args.contains("readonly"),
            "{args}"
        );
    }

    #[test]
    fn several_cpus_run_at_the_same_time() {
        let four = line(&Guest {
            cpus: 4,
            ..guest(Arch::X86_64)
        });
        assert!(four.contains("thread=multi -smp 4 "), "{four}");
        assert!(four.contains("-cpu max,-erms"), "{four}");
        let one = joined(Arch::X86_64, None, None);
        assert!(
            one.contains("thread=single -smp 1 ") && one.contains("-cpu max "),
            "{one}"
        );
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn an_x86_guest_that_runs_by_the_hosts_clock_knows_its_frequency() {
        let known = |args: &str| args.contains(" tsc_early_khz=");
        assert!(known(&joined(Arch::X86_64, None, None)));
        assert!(!known(&joined(Arch::X86_64, None, Some(plugin()))));
        assert!(!known(&joined(Arch::Arm64, None, None)));
    }

    #[test]
    fn where_the_plugin_looks_on_they_run_in_turn() {
        let guest = Guest {
            cpus: 2,
            plugin: Some(plugin()),
            ..guest(Arch::X86_64)
        };
        let two = line(&guest);
        assert!(two.contains("thread=single -smp 2 "), "{two}");
        assert!(two.contains("-icount shift=0"), "{two}");
        assert!(two.contains(",turns=on"), "{two}");
        assert!(two.contains("-cpu max "), "{two}");
    }

    #[test]
    fn a_disk_can_be_slow() {
        let slow = line(&Guest {
            disk: Some(Path::new("/c/disk.img")),
            disk_rate: Some(1),
            ..guest(Arch::Arm64)
        });
        assert!(
            slow.contains("readonly=on,throttling.iops-total=1,"),
            "{slow}"
        );
    }

    #[test]
    fn the_referee_knows_what_the_cpus_promise() {
        for (arch, model, end) in [
            (Arch::Arm64, CpuModel::Max, "referee=on,ets2=on"),
            (Arch::Arm64, CpuModel::Bbm, "referee=on,ets2=on,bbm=2"),
            (Arch::Arm64, CpuModel::NoEts2, "referee=on"),
            (Arch::X86_64, CpuModel::Max, "referee=on"),
        ] {
            let args = line(&Guest {
                cpu_model: model,
                plugin: Some(plugin()),
                ..guest(arch)
            });
            assert!(args.ends_with(end), "{args}");
        }
    }

    #[test]
    fn the_plugin_knows_where_memory_begins() {
        let args = joined(Arch::Arm64, None, Some(plugin()));
        assert!(
            args.contains("ram_base=0x40000000,ram=/s/a,,b/ram"),
            "{args}"
        );
        assert!(
            args.contains("-plugin file=/p/lib.so,profile=neoverse-v2"),
            "{args}"
        );
        assert!(args.contains("out=/s/counts,referee=on"), "{args}");
        assert!(joined(Arch::X86_64, None, Some(plugin())).contains("ram_base=0x0,"));
        let sweep = Plugin {
            sweep: &["random".into(), "half-l2".into()],
            ..plugin()
        };
        assert!(joined(Arch::X86_64, None, Some(sweep)).contains(",sweep=random+half-l2"));
        assert!(!args.contains("sweep"), "{args}");
    }

    #[test]
    fn the_console_is_the_machines_own() {
        assert!(joined(Arch::Arm64, None, None).contains("console=ttyAMA0"));
        assert!(joined(Arch::X86_64, None, None).contains("console=ttyS0"));
        assert!(
            joined(Arch::X86_64, None, None)
                .contains("panic_on_warn=1 sysctl.vm.compaction_proactiveness=0 quiet")
        );
    }
}
