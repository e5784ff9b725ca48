//! Questions about the running kernel's types, answered from its BTF: does it have this function,
//! this struct member, this enumerator?
//!
//! Each question names the kind of type. A search for the bare name would be wrong: the names of
//! all functions, members, arguments and variables are in the same string section.

use std::ffi::CString;
use std::path::Path;

use libbpf_rs::btf::types::{Composite, Enum, Enum64, Func};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize, TypeId};
use libbpf_rs::AsRawLibbpf;

/// The types of a kernel, or of a BPF object that this crate compiled.
#[derive(Debug)]
pub(crate) struct Types<'a>(Btf<'a>);

/// Prefix of sched_ext's enums (flags, queue ids, exit codes). Their values can differ between
/// kernels.
const KERNELS_ENUMS: &str = "scx_";
/// The only one of these enums whose values libbpf does not relocate: see [`Types::ops_flags`].
const OPS_FLAGS: &str = "scx_ops_flags";

impl<'a> Types<'a> {
    /// Wraps BTF that is already loaded.
    pub fn new(btf: Btf<'a>) -> Self {
        Self(btf)
    }

    /// Reads a BTF file (`/sys/kernel/btf/vmlinux`) or the BTF of an ELF object.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or it contains no valid BTF.
    pub fn read(path: &Path) -> libbpf_rs::Result<Types<'static>> {
        Btf::from_path(path).map(Types)
    }

    /// Finds the type with this name and kind. libbpf-rs itself finds the first type with that
    /// name, whatever its kind.
    fn find<'s, K: TryFrom<BtfType<'s>>>(&'s self, name: &str, kind: BtfKind) -> Option<K> {
        let name = CString::new(name).ok()?;
        let btf = self.0.as_libbpf_object();
        // SAFETY: both pointers live until the call returns
        let id =
            unsafe { libbpf_sys::btf__find_by_name_kind(btf.as_ptr(), name.as_ptr(), kind as u32) };
        self.0.type_by_id(TypeId::from(u32::try_from(id).ok()?))
    }

    /// Does the kernel have a function of this name? (Whether BPF programs may call it is not
    /// checked.)
    pub fn has_function(&self, name: &str) -> bool {
        self.find::<Func>(name, BtfKind::Func).is_some()
    }

    /// Does the struct `name` have a member of this name?
    pub fn has_member(&self, name: &str, member: &str) -> bool {
        let found = self.find::<Composite>(name, BtfKind::Struct);
        found.is_some_and(|s| s.iter().any(|m| m.name.is_some_and(|n| n == member)))
    }

    /// The enumerators of an enum with their values. Returns None if the enum is missing or if its
    /// values are truncated: pahole before 1.24 writes 64-bit values without BTF_KIND_ENUM64.
    fn enumerators(&self, name: &str) -> Option<Vec<(String, u64)>> {
        let text = |name: Option<&std::ffi::OsStr>| {
            name.unwrap_or_default().to_string_lossy().into_owned()
        };
        if let Some(found) = self.find::<Enum64>(name, BtfKind::Enum64) {
            return Some(
                found
                    .iter()
                    .map(|m| (text(m.name), m.value as u64))
                    .collect(),
            );
        }
        let found = self.find::<Enum>(name, BtfKind::Enum)?;
        let values = || {
            found
                .iter()
                .map(|m| (text(m.name), m.value as u64))
                .collect()
        };
        (found.size() <= size_of::<u32>()).then(values)
    }

    fn enumerator(&self, name: &str, enumerator: &str) -> Option<u64> {
        let all = self.enumerators(name)?;
        all.into_iter()
            .find(|(n, _)| n == enumerator)
            .map(|(_, value)| value)
    }

    /// The kernel's __GFP_DIRECT_RECLAIM; 0 before 6.10, which does not tell.
    pub fn gfp_may_reclaim(&self) -> u32 {
        let bit = self.unnamed_enumerator("___GFP_DIRECT_RECLAIM_BIT");
        bit.and_then(|bit| 1u32.checked_shl(bit.try_into().ok()?))
            .unwrap_or(0)
    }

    /// The value of an enumerator that is in an enum without a name.
    fn unnamed_enumerator(&self, enumerator: &str) -> Option<u64> {
        let mut unnamed = self.0.type_by_kind::<Enum>().filter(|e| e.name().is_none());
        unnamed.find_map(|e| {
            let mut members = e.iter();
            let found = members.find(|m| m.name.is_some_and(|n| n == enumerator));
            found.map(|m| m.value as u64)
        })
    }

    /// The sched_ext enumerators that `object` uses and that this kernel lacks, each as "enum NAME:
    /// ENUMERATOR".
    pub fn missing_enumerators(&self, object: &Types) -> Vec<String> {
        let narrow = object
            .0
            .type_by_kind::<Enum>()
            .filter_map(|e| e.name().map(ToOwned::to_owned));
        let wide = object
            .0
            .type_by_kind::<Enum64>()
            .filter_map(|e| e.name().map(ToOwned::to_owned));
        let mut missing = Vec::new();
        for name in narrow.chain(wide) {
            let name = name.to_string_lossy();
            if !name.starts_with(KERNELS_ENUMS) {
                continue;
            }
            let here = self.enumerators(&name).unwrap_or_default();
            for (enumerator, _) in object.enumerators(&name).unwrap_or_default() {
                if !here.iter().any(|(n, _)| *n == enumerator) {
                    missing.push(format!("enum {name}: {enumerator}"));
                }
            }
        }
        missing
    }

    /// Translates flags of `struct sched_ext_ops` by name, from the numbers in `object`'s BTF
    /// (`flags`) to this kernel's numbers. A flag without a name in either BTF is dropped. This
    /// cannot happen to a kernel that [`Types::missing_enumerators`] accepted.
    pub fn ops_flags(&self, object: &Types, flags: u64) -> u64 {
        let ours = object.enumerators(OPS_FLAGS).unwrap_or_default();
        ours.iter()
            .filter(|(_, value)| flags & value != 0)
            .filter_map(|(name, _)| self.enumerator(OPS_FLAGS, name))
            .sum()
    }
}

#[cfg(test)]
mod tests;
