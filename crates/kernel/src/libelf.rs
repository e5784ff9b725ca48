//! Makes up for two functions that are missing in some static libelf.
//!
//! Debian 13's libelf.a (elfutils 0.192) calls `eu_search_tree_init` and `eu_search_tree_fini`,
//! which are in a library of elfutils that is not packaged; later versions have them inside. They
//! begin and end the tree in which `elf_getdata_rawchunk` remembers its results. libbpf never calls
//! that function, so the tree stays empty: an empty root is all there is to begin, and nothing to
//! end. Where libelf.a needs or has the functions otherwise, the linker leaves these out or takes
//! these first.

use std::ffi::c_void;
use std::ptr;

/// `struct search_tree { void *root; <lock, if built with threads> }`: the caller cleared it.
///
/// # Safety
/// `tree` is valid; only libelf calls this.
#[no_mangle]
unsafe extern "C" fn eu_search_tree_init(tree: *mut *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe { tree.write(ptr::null_mut()) };
}

/// Nothing was ever put into the tree.
#[no_mangle]
extern "C" fn eu_search_tree_fini(_tree: *mut c_void, _free: *const c_void) {}

/// Names both functions, so that the linker has them when it comes to libelf.
pub fn keep() {
    std::hint::black_box((
        eu_search_tree_init as unsafe extern "C" fn(_),
        eu_search_tree_fini as extern "C" fn(_, _),
    ));
}
