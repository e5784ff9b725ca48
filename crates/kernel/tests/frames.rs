//! Checks a rule that the verifiers of 6.16 to 6.17.8 and 6.18-rc5 need; `TAKES_STACK` in
//! bpf/kernel/program.bpf.h explains it. The check reads the compiled object, because stack depths
//! exist only there.
//!
//! The rule applies to each static function that is called in a loop and that uses an iterator,
//! either itself or through other static functions. (A global function is verified separately.)
//! Such a function must write to the deepest location of its stack frame before its first jump or
//! call.

use std::collections::{BTreeMap, BTreeSet};

use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};

const FRAME: u8 = 10; // r10, the register that points to the upper end of the frame

/// A BPF instruction, as in include/uapi/linux/bpf.h.
struct Insn {
    code: u8,
    dst: u8,
    src: u8,
    off: i16,
    imm: i32,
    calls: Option<Callee>,
}

/// The target of a call.
enum Callee {
    /// A function of the kernel, by name.
    Kernel(String),
    /// A function in this object: the section, and the offset there in instructions.
    Ours(usize, i64),
}

/// A function of the object, with its section and its offset there in instructions.
struct Function {
    name: String,
    is_static: bool,
    code: Vec<Insn>,
    section: usize,
    start: i64,
}

impl Insn {
    fn parse(bytes: &[u8]) -> Insn {
        Insn {
            code: bytes[0],
            dst: bytes[1] & 15,
            src: bytes[1] >> 4,
            off: i16::from_le_bytes([bytes[2], bytes[3]]),
            imm: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            calls: None,
        }
    }

    fn is_call(&self) -> bool {
        self.code == 0x85
    }

    fn is_jump(&self) -> bool {
        matches!(self.code & 7, 5 | 6) && !self.is_call()
    }

    /// Is this `may_goto`? The verifier treats it like an iterator's next function.
    fn is_may_goto(&self) -> bool {
        self.code == 0xe5
    }

    /// If the instruction accesses the frame: the depth below the frame's upper end, in bytes, and
    /// whether it is a write.
    fn reaches(&self) -> Option<(i64, bool)> {
        let (base, writes) = match self.code & 7 {
            1 => (self.src, false),
            2 | 3 => (self.dst, true),
            _ => return None,
        };
        (base == FRAME).then_some((-i64::from(self.off), writes))
    }
}

impl Function {
    /// Does the function itself contain an iterator, so that the verifier widens the state of its
    /// frame?
    fn has_iterator(&self) -> bool {
        self.code.iter().any(|i| {
            let next = |name: &String| name.starts_with("bpf_iter_") && name.ends_with("_next");
            i.is_may_goto() || matches!(&i.calls, Some(Callee::Kernel(name)) if next(name))
        })
    }

    /// The function's loops: offsets of the first and the last instruction of each.
    fn loops(&self) -> Vec<(i64, i64)> {
        let jumps = (0i64..).zip(&self.code).filter(|(_, i)| i.is_jump());
        let ways = jumps.map(|(at, i)| (at + 1 + i64::from(i.off), at));
        ways.filter(|(to, at)| to <= at).collect()
    }

    /// The deepest location of the frame that the function accesses or takes the address of, in
    /// bytes.
    fn depth(&self) -> i64 {
        let mut copies = BTreeSet::new(); // registers that hold a copy of r10
        let mut deepest = 0;
        for i in &self.code {
            deepest = deepest.max(i.reaches().map_or(0, |(depth, _)| depth));
            match i.code {
                0xbf if i.src == FRAME => {
                    copies.insert(i.dst);
                }
                0x07 if copies.remove(&i.dst) => deepest = deepest.max(-i64::from(i.imm)),
                _ => {}
            }
        }
        deepest
    }

    /// The deepest location of the frame that is written before the first jump or call, in bytes.
    fn depth_at_once(&self) -> i64 {
        let first = self
            .code
            .iter()
            .take_while(|i| !i.is_jump() && !i.is_call());
        let written = first
            .filter_map(Insn::reaches)
            .filter(|(_, writes)| *writes);
        written.map(|(depth, _)| depth).max().unwrap_or(0)
    }
}

/// All functions of an object, by section and offset.
fn functions(data: &[u8]) -> BTreeMap<(usize, i64), Function> {
    let file: ElfFile<FileHeader64<LittleEndian>> = ElfFile::parse(data).expect("an ELF file");
    let mut found = BTreeMap::new();
    for symbol in file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && s.size() > 0)
    {
        let section = symbol.section_index().expect("functions are in sections");
        let text = file
            .section_by_index(section)
            .expect("a section")
            .data()
            .expect("its code");
        let (from, to) = (symbol.address(), symbol.address() + symbol.size());
        let code = text[from as usize..to as usize]
            .chunks(8)
            .map(Insn::parse)
            .collect();
        let start = from as i64 / 8;
        let name = symbol.name().expect("a name").to_owned();
        let is_static = symbol.is_local();
        let section = section.0;
        found.insert(
            (section, start),
            Function {
                name,
                is_static,
                code,
                section,
                start,
            },
        );
    }
    let mut called = BTreeMap::new(); // calls by relocation
    for section in file.sections() {
        for (at, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                continue;
            };
            let symbol = file.symbol_by_index(symbol).expect("a symbol");
            let into = symbol
                .section_index()
                .map(|s| (s.0, symbol.address() as i64 / 8));
            let name = symbol.name().unwrap_or_default().to_owned();
            called.insert((section.index().0, at as i64 / 8), (into, name));
        }
    }
    for f in found.values_mut() {
        for (at, i) in (f.start..).zip(&mut f.code).filter(|(_, i)| i.is_call()) {
            i.calls = match called.get(&(f.section, at)) {
                Some((Some((section, place)), _)) => {
                    Some(Callee::Ours(*section, place + 1 + i64::from(i.imm)))
                }
                Some((None, name)) => Some(Callee::Kernel(name.clone())),
                None if i.src == 1 => Some(Callee::Ours(f.section, at + 1 + i64::from(i.imm))),
                None => None, // a helper
            };
        }
    }
    found
}

/// The static functions that `f` calls. With `looping`, only those that it calls in loops.
fn statics<'a>(
    all: &'a BTreeMap<(usize, i64), Function>,
    f: &Function,
    looping: bool,
) -> Vec<&'a Function> {
    let loops = f.loops();
    let in_loop = |at: i64| loops.iter().any(|(from, to)| (*from..=*to).contains(&at));
    let calls = (0i64..)
        .zip(&f.code)
        .filter(|(at, _)| !looping || in_loop(*at));
    let ours = calls.filter_map(|(_, i)| match &i.calls {
        Some(Callee::Ours(section, place)) => Some(&all[&(*section, *place)]),
        _ => None,
    });
    ours.filter(|callee| callee.is_static).collect()
}

/// Adds `f` and the static functions below it to `frames`, except those that lead to no iterator.
/// Returns whether `f` leads to an iterator.
fn on_the_way<'a>(
    all: &'a BTreeMap<(usize, i64), Function>,
    f: &'a Function,
    frames: &mut BTreeMap<&'a str, &'a Function>,
) -> bool {
    let mut leads = f.has_iterator();
    for callee in statics(all, f, false) {
        leads |= on_the_way(all, callee, frames);
    }
    if leads {
        frames.insert(&f.name, f);
    }
    leads
}

#[test]
fn functions_that_loop_in_a_loop_take_their_stack_at_once() {
    // The tests of the test: it must find these functions of the tree of domains, and of packets.
    check(
        include_bytes!(concat!(env!("OUT_DIR"), "/main.bpf.o")),
        &["heap_merge", "climb"],
    );
    check(
        include_bytes!(concat!(env!("OUT_DIR"), "/qdisc.bpf.o")),
        &["heap_merge", "hsfq_leave"],
    );
}

fn check(object: &[u8], known: &[&str]) {
    let all = functions(object);
    let mut frames = BTreeMap::new();
    for f in all.values() {
        for callee in statics(&all, f, true) {
            on_the_way(&all, callee, &mut frames);
        }
    }
    for name in known {
        assert!(frames.contains_key(*name), "{name}: {:?}", frames.keys());
    }
    let late: Vec<_> = frames
        .values()
        .filter(|f| f.depth_at_once() < f.depth())
        .map(|f| {
            format!(
                "{}: has {} bytes at once, reaches {}",
                f.name,
                f.depth_at_once(),
                f.depth()
            )
        })
        .collect();
    assert!(
        late.is_empty(),
        "TAKES_STACK is missing, or too little:\n{}",
        late.join("\n")
    );
    // TAKES_STACK must write below everything that the compiler uses; otherwise it overwrites data.
    for f in frames.values().filter(|f| f.depth() > 0) {
        let deepest = f
            .code
            .iter()
            .filter(|i| i.reaches().is_some_and(|(depth, _)| depth == f.depth()));
        assert_eq!(
            deepest.count(),
            1,
            "{}: what it takes at once overlaps what it uses",
            f.name
        );
    }
}
