//! What the running kernel is made of, as its BTF says: functions, members of structs, values of
//! enumerators.
//!
//! Each question names a kind. A name alone says nothing: all names of functions, members,
//! arguments and variables are in one string section.

use std::ffi::CString;
use std::path::Path;

use libbpf_rs::btf::types::{Composite, Enum, Enum64, Func};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize, TypeId};
use libbpf_rs::AsRawLibbpf;

/// The types of a kernel, or of an object of ours.
#[derive(Debug)]
pub(crate) struct Types<'a>(Btf<'a>);

/// Enums of sched_ext: flags, queue ids, codes. Their values are the kernel's to choose.
const KERNELS_ENUMS: &str = "scx_";
/// The one of them that is not relocated in instructions: see [`Types::ops_flags`].
const OPS_FLAGS: &str = "scx_ops_flags";

impl<'a> Types<'a> {
    pub fn new(btf: Btf<'a>) -> Self {
        Self(btf)
    }

    /// From a BTF file (`/sys/kernel/btf/vmlinux`) or an ELF object.
    pub fn read(path: &Path) -> libbpf_rs::Result<Types<'static>> {
        Btf::from_path(path).map(Types)
    }

    /// The type of this name and kind. (libbpf-rs finds the first type of that name, of whatever
    /// kind.)
    fn find<'s, K: TryFrom<BtfType<'s>>>(&'s self, name: &str, kind: BtfKind) -> Option<K> {
        let name = CString::new(name).ok()?;
        let btf = self.0.as_libbpf_object();
        // SAFETY: both pointers live until the call returns
        let id =
            unsafe { libbpf_sys::btf__find_by_name_kind(btf.as_ptr(), name.as_ptr(), kind as u32) };
        self.0.type_by_id(TypeId::from(u32::try_from(id).ok()?))
    }

    /// Is there a function of this name, which BPF programs can call if the kernel lets them?
    pub fn has_function(&self, name: &str) -> bool {
        self.find::<Func>(name, BtfKind::Func).is_some()
    }

    /// Has a struct a member of this name?
    pub fn has_member(&self, name: &str, member: &str) -> bool {
        let found = self.find::<Composite>(name, BtfKind::Struct);
        found.is_some_and(|s| s.iter().any(|m| m.name.is_some_and(|n| n == member)))
    }

    /// The enumerators of an enum; None: it is missing, or its values are cut off (64-bit values
    /// without BTF_KIND_ENUM64, as pahole before 1.24 writes them).
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

    /// Enumerators that `object` takes from the kernel and that this kernel lacks, as "enum NAME:
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

    /// The flags of `struct sched_ext_ops` in this kernel's numbers, by name. `flags`: in
    /// `object`'s numbers. A flag without a name in either is left out;
    /// [`Types::missing_enumerators`] has refused such a kernel before.
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
