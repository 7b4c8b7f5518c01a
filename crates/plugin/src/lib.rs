// SPDX-License-Identifier: GPL-2.0-only
//! QEMU TCG plugin that feeds [`wideleaf_tlb`] with what a guest does.
//!
//! ```text
//! -plugin libwideleaf_plugin.so,profile=neoverse-v2,ram=FILE,out=FILE[,ram_base=ADDR][,referee=on][,turns=on][,sweep=all]
//! ```
//!
//! What counts as what:
//!
//! - **Instruction side**: one lookup per entry into a translated block and
//!   per 4K page of code that the block touches. QEMU ends blocks at branches
//!   and at 4K page ends, so this is one lookup per taken or fallen-through
//!   branch target and per page crossed, not one per instruction; hits are
//!   therefore fewer than a PMU would count, misses are not.
//! - **Data side**: one lookup per load or store that QEMU makes and
//!   completes, two where it ends in another page that is not in the same
//!   leaf. An access that faults is looked up when it is run again.
//! - **Instructions**: each when it begins. One that faults counts again.
//! - **User or kernel**: code in the upper half of the address space is
//!   kernel. On the way from the upper half to the lower the exception level
//!   (arm64 PSTATE) or CPL (x86 CS) is read once, so early boot code that runs
//!   identity-mapped in the lower half is kernel too. Not seen is an interrupt
//!   taken in the lower half whose handler is in the lower half as well, which
//!   Linux does not do.
//! - **Aliases**: a physical page of code mapped at two addresses that jump to
//!   each other directly counts as one page; see `translate.rs` for why.
//! - **A function**: the guest may name one of the kernel's (arm64), whose calls are counted, and
//!   their instructions with all that it calls; see `function.rs`.
//! - **vCPUs**: each has its own model and its own counts; broadcast TLBIs and
//!   phase changes reach the others at their next data access or page of code.
//!   Run in turn by one thread (`-accel tcg,thread=single`, and `turns=on` here)
//!   they repeat as far as the guest does. With a thread each they do not, and
//!   the report carries a warning.
//! - **Disk**: a virtio-mmio disk answers before the guest's next instruction;
//!   see `disk.rs` for why.
//!
//! - **Referee**: with `referee=on` stores to page tables, TLB maintenance,
//!   barriers and accesses also go to [`wideleaf_tlb::referee`]; see `watch.rs`.
//!
//! - **Variants**: with `sweep=` variants of the profile see the same accesses and maintenance; see
//!   [`wideleaf_tlb::variant`].
//!
//! Hot paths allocate nothing and take no lock. A block is instrumented with
//! an inline counter and an inline comparison: the plugin is called only when
//! code moves to another page.

mod args;
mod callbacks;
mod callers;
mod disk;
mod event;
mod ffi;
mod function;
mod inline;
mod install;
mod output;
mod plugin;
mod ram;
mod registers;
mod touches;
mod translate;
mod turns;
mod vcpu;
mod watch;

pub use install::qemu_plugin_install;

/// The plugin API that this is built for; QEMU refuses to load a plugin newer
/// than itself.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: std::ffi::c_int = ffi::sys::QEMU_PLUGIN_VERSION as _;
