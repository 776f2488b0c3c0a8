//! The features of the machine that pads use.

use std::arch::x86_64::__cpuid_count;
use std::sync::LazyLock;

use tracewire_arch::X86Registers;

use crate::pad::Features;

/// The kernel's flag for `rdfsbase` (`HWCAP2_FSGSBASE`), and its place.
const AT_HWCAP2: u64 = 26;
const FSGSBASE: u64 = 2;

impl Features {
    /// The features of this machine.
    #[must_use]
    pub fn of_this_machine() -> Self {
        // A virtual machine's `cpuid` takes microseconds.
        static FOUND: LazyLock<Features> = LazyLock::new(Features::find);
        *FOUND
    }

    fn find() -> Self {
        #[allow(unused_unsafe)]
        // SAFETY: every x86-64 processor has the instruction; the result of an unsupported leaf is not used.
        let leaf = |leaf, subleaf| unsafe { __cpuid_count(leaf, subleaf) };
        let most = leaf(0, 0).eax;
        let known = |wanted, subleaf| (wanted <= most).then(|| leaf(wanted, subleaf));
        Self {
            rdpid: known(7, 0).is_some_and(|leaf| leaf.ecx & 1 << 22 != 0),
            fsgsbase: auxiliary(AT_HWCAP2).is_some_and(|bits| bits & FSGSBASE != 0),
            xgetbv1: known(0xd, 1).is_some_and(|leaf| leaf.eax & 1 << 2 != 0),
            cmpxchg16b: std::arch::is_x86_feature_detected!("cmpxchg16b"),
            avx: std::arch::is_x86_feature_detected!("avx"),
            avx512: std::arch::is_x86_feature_detected!("avx512f")
                && std::arch::is_x86_feature_detected!("avx512vl")
                && std::arch::is_x86_feature_detected!("avx512bw"),
        }
    }
}

impl Features {
    /// The largest register set of such a machine.
    #[must_use]
    pub fn registers(self) -> X86Registers {
        if self.avx512 {
            X86Registers::Avx512
        } else if self.avx {
            X86Registers::Avx
        } else {
            X86Registers::Sse
        }
    }
}

/// A value of the auxiliary vector.
fn auxiliary(wanted: u64) -> Option<u64> {
    let bytes = std::fs::read("/proc/self/auxv").ok()?;
    let (words, _) = bytes.as_chunks::<16>();
    words.iter().find_map(|pair| {
        let (kind, value) = pair.split_at(8);
        let kind = u64::from_le_bytes(kind.try_into().ok()?);
        let value = u64::from_le_bytes(value.try_into().ok()?);
        (kind == wanted).then_some(value)
    })
}
