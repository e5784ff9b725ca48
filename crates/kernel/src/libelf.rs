//! Supplies two functions that are missing in some static libelf libraries.
//!
//! Debian 13's libelf.a (elfutils 0.192) calls `eu_search_tree_init` and `eu_search_tree_fini`.
//! They are in a library of elfutils that Debian does not package; later versions of libelf.a
//! contain them. They set up and free the tree in which `elf_getdata_rawchunk` caches its results.
//! libbpf never calls `elf_getdata_rawchunk`, so the tree stays empty: setting up means storing an
//! empty root, and there is nothing to free. If libelf.a does not need the two functions, the
//! linker drops them; if it has its own, the linker takes these, which come first.

use std::ffi::c_void;
use std::ptr;

/// Sets up an empty tree. `tree` points to `struct search_tree { void *root; <lock, if built with
/// threads> }`, which the caller has cleared.
///
/// # Safety
///
/// `tree` must be valid. Only libelf calls this function.
#[no_mangle]
unsafe extern "C" fn eu_search_tree_init(tree: *mut *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe { tree.write(ptr::null_mut()) };
}

/// Frees nothing: the tree is always empty.
#[no_mangle]
extern "C" fn eu_search_tree_fini(_tree: *mut c_void, _free: *const c_void) {}

/// Refers to both functions, so that they are linked before libelf is searched.
pub fn keep() {
    std::hint::black_box((
        eu_search_tree_init as unsafe extern "C" fn(_),
        eu_search_tree_fini as extern "C" fn(_, _),
    ));
}
